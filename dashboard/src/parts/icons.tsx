// Icons of 16 × 16 pixels, drawn with one stroke.

const STROKES = {
  models: "M2.5 4.5 8 1.8l5.5 2.7v7L8 14.2l-5.5-2.7zM2.5 4.5 8 7.3l5.5-2.8M8 7.3v6.9",
  timeline: "M2 4h6M5 8h8M3.5 12h5",
  memory: "M3 4.5h10v7H3zM5.5 4.5v-2M8 4.5v-2M10.5 4.5v-2M5.5 13.5v-2M8 13.5v-2M10.5 13.5v-2",
  fleet: "M2.5 2.5h4.5v4.5h-4.5zM9 9h4.5v4.5h-4.5zM9 2.5h4.5v4.5h-4.5zM2.5 9h4.5v4.5h-4.5z",
  queue: "M3 4.5h.01M6 4.5h7M3 8h.01M6 8h7M3 11.5h.01M6 11.5h7",
  activity: "M1.8 8.5h3l2-5.5 2.8 10 1.8-4.5h2.8",
  usage: "M2 14h12M3.5 14V9h2v5M7 14V3h2v11M10.5 14V6h2v8",
  logs: "M3.5 2h6l3 3v9h-9zM5.5 7.5h5M5.5 10.5h5",
  playground: "M2.5 3h11v8h-6l-3 2.8V11h-2z",
  config: "M2 4.5h6M12 4.5h2M2 11.5h2M8 11.5h6M8.5 2.8h3v3.4h-3zM4.5 9.8h3v3.4h-3z",
} as const;

export type IconName = keyof typeof STROKES;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={STROKES[name]} />
    </svg>
  );
}
