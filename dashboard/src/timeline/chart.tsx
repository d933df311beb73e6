// The timeline chart, with panning and zooming by drag, wheel and keyboard.

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Finished, RequestInProgress } from "../data/types";
import type { Lanes } from "./lanes";
import { counted } from "../words";
import { AXIS, Grid, Paper, Phases, Requests, Swaps } from "./layers";
import { moved, type Stretch, zoomed } from "./window";

interface ChartProps {
  names: readonly string[];
  lanes: Lanes;
  finished: readonly Finished[];
  inProgress: readonly RequestInProgress[];
  seen: Stretch;
  now: number;
  look: (stretch: Stretch) => void;
  follow: () => void;
}

type Frame = { current: HTMLDivElement | null };

const GUIDE = "Hover over the chart for details. Drag to pan, Ctrl + scroll to zoom.";
const LABEL =
  "Timeline of the models. Arrow keys pan, plus and minus zoom, End follows live. The tables below show the same data.";

export function Chart({ names, lanes, finished, inProgress, seen, now, look, follow }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const hint = useSignal("");
  const paper = new Paper(names, seen, now, useWidth(frame));
  const tell = (text: string) => {
    hint.value = text;
  };
  useWheel(frame, seen, look);
  return (
    <div class="lanes">
      <ol class="lane-names" aria-hidden="true">
        {names.map((name) => (
          <li key={name}>{name}</li>
        ))}
      </ol>
      {/* Not a fieldset: screen readers would announce a form */}
      <div
        ref={frame}
        class="lane-frame"
        role="group"
        aria-label={LABEL}
        // Focusable, for the arrow keys
        tabIndex={0}
        onKeyDown={(event) => onKeyDown(event, seen, look, follow)}
        {...useDrag(frame, seen, look)}
      >
        <svg width={paper.width} height={paper.height} role="img" aria-label={counted(names.length, "model")}>
          <Grid paper={paper} />
          <Requests paper={paper} finished={finished} inProgress={inProgress} tell={tell} />
          <Swaps paper={paper} swaps={lanes.swaps} />
          <Phases paper={paper} segments={lanes.segments} tell={tell} />
          <line class="present" x1={paper.x(now)} x2={paper.x(now)} y1={AXIS - 6} y2={paper.height} />
        </svg>
      </div>
      <p class="lane-hint muted">{hint.value || GUIDE}</p>
    </div>
  );
}

const BY_KEY: Record<string, (seen: Stretch) => Stretch> = {
  ArrowLeft: (seen) => moved(seen, -0.2),
  ArrowRight: (seen) => moved(seen, 0.2),
  "+": (seen) => zoomed(seen, 0.5, 0.5),
  "=": (seen) => zoomed(seen, 0.5, 0.5),
  "-": (seen) => zoomed(seen, 2, 0.5),
};

function onKeyDown(event: KeyboardEvent, seen: Stretch, look: ChartProps["look"], follow: () => void): void {
  const stretch = BY_KEY[event.key]?.(seen);
  if (stretch) look(stretch);
  else if (event.key === "End") follow();
  else return;
  event.preventDefault();
}

/** The wheel zooms with Ctrl, pans horizontally, and otherwise scrolls the page as usual. */
function useWheel(frame: Frame, seen: Stretch, look: ChartProps["look"]): void {
  const latest = useRef({ seen, look });
  latest.current = { seen, look };
  useEffect(() => {
    const element = frame.current as HTMLDivElement;
    const onWheel = (event: WheelEvent) => {
      const { seen, look } = latest.current;
      const box = element.getBoundingClientRect();
      if (event.ctrlKey)
        look(zoomed(seen, Math.exp(event.deltaY / 300), (event.clientX - box.left) / box.width));
      else if (event.deltaX) look(moved(seen, event.deltaX / box.width));
      else return;
      event.preventDefault();
    };
    // Not as a property: only a listener that is registered as not passive can prevent scrolling.
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);
}

function useDrag(frame: Frame, seen: Stretch, look: ChartProps["look"]) {
  const grip = useRef<number | null>(null);
  const letGo = () => {
    grip.current = null;
  };
  return {
    onPointerDown: (event: PointerEvent) => {
      grip.current = event.clientX;
    },
    onPointerMove: (event: PointerEvent) => {
      if (grip.current === null || !frame.current) return;
      look(moved(seen, (grip.current - event.clientX) / frame.current.clientWidth));
      grip.current = event.clientX;
    },
    onPointerUp: letGo,
    onPointerLeave: letGo,
  };
}

function useWidth(frame: Frame): number {
  const width = useSignal(800);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => {
      width.value = entry?.contentRect.width ?? 800;
    });
    watch.observe(frame.current as HTMLDivElement);
    return () => watch.disconnect();
  }, []);
  return width.value;
}
