// A chart of values over time, drawn by uPlot in the colours of the theme.

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";

export interface Series {
  name: string;
  /** A CSS custom property. */
  colour: string;
  look: "steps" | "points";
}

interface PlotProps {
  label: string;
  series: Series[];
  /** Timestamps in seconds, then the values of each series. */
  data: uPlot.AlignedData;
  unit: "count" | "seconds";
  from: number;
  to: number;
}

const HEIGHT = 180;
const MARKS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];

export function Plot({ label, series, data, unit, from, to }: PlotProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  // A new plot when the theme changes, because uPlot paints the colours into its canvas.
  const scheme = useScheme();
  useEffect(() => {
    const parent = place.current as HTMLDivElement;
    plot.current = new uPlot(options(series, unit, parent.clientWidth), data, parent);
    const watch = new ResizeObserver(() =>
      plot.current?.setSize({ width: parent.clientWidth, height: HEIGHT }),
    );
    watch.observe(parent);
    return () => {
      watch.disconnect();
      plot.current?.destroy();
    };
  }, [scheme]);
  useEffect(() => {
    plot.current?.batch(() => {
      plot.current?.setData(data, false);
      plot.current?.setScale("x", { min: from, max: to });
    });
  }, [data, from, to, scheme]);
  return <div class="plot" ref={place} role="img" aria-label={label} />;
}

function options(series: Series[], unit: "count" | "seconds", width: number): uPlot.Options {
  const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis: uPlot.Axis = {
    stroke: colour("--muted"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width,
    height: HEIGHT,
    padding: [8, 28, 0, 0], // the last label is wider than its tick
    legend: { show: false },
    cursor: { show: false },
    scales: { x: { time: true, auto: false }, y: scaleOf(unit) },
    axes: [
      { ...axis, size: 28, space: 80, incrs: MARKS_S, values: "{HH}:{mm}:{ss}" },
      unit === "count"
        ? { ...axis, size: 36, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500] }
        : { ...axis, size: 60, filter: decades, grid: { ...axis.grid, filter: decades }, values: inWords },
    ],
    series: [{}, ...series.map((each) => drawn(each, colour(each.colour)))],
  };
}

function scaleOf(unit: "count" | "seconds"): uPlot.Scale {
  if (unit === "count") return { range: (_, __, high) => [0, Math.max(3, (high ?? 0) + 1)] };
  const decade = (seconds: number, round: (exponent: number) => number) => 10 ** round(Math.log10(seconds));
  return {
    distr: 3,
    range: (_, low, high) => [
      decade(Math.min(low ?? 0.01, 0.01), Math.floor),
      decade(Math.max(high ?? 1, 1.01), Math.ceil),
    ],
  };
}

function decades(_: uPlot, splits: number[]): (number | null)[] {
  return splits.map((each) => (Number.isInteger(Math.round(Math.log10(each) * 1e6) / 1e6) ? each : null));
}

function inWords(_: uPlot, splits: (number | null)[]): string[] {
  return splits.map((each) =>
    each === null ? "" : each < 1 ? `${Math.round(each * 1000)} ms` : `${each} s`,
  );
}

function drawn({ name, look }: Series, stroke: string): uPlot.Series {
  if (look === "points") {
    return { label: name, stroke, paths: () => null, points: { show: true, size: 5, fill: stroke, stroke } };
  }
  const paths = uPlot.paths.stepped?.({ align: 1 });
  return {
    label: name,
    stroke,
    fill: `${stroke}22`,
    width: 1.5,
    points: { show: false },
    ...(paths && { paths }),
  };
}

function useScheme(): string {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  return `${document.documentElement.dataset.theme ?? "system"} ${dark}`;
}
