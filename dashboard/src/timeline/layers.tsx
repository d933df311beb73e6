// The layers of the timeline chart. Hovering shows details; the tables below the chart show the same data.

import type { Finished, RequestInProgress } from "../data/types";
import { clock, duration, firstLine } from "../words";
import type { Segment, Swap } from "./lanes";
import { marks, place, type Stretch } from "./window";

export const LANE = 44;
export const AXIS = 24;
const BAND = 14;
const BAND_AT = 8;
const REQUEST = 9;
const REQUEST_AT = 27;
const MARK_EVERY = 90;
const LABEL = 56;
const SWAPS_APART = 8;

/** Maps times and models to coordinates. */
export class Paper {
  readonly height: number;

  constructor(
    readonly names: readonly string[],
    readonly seen: Stretch,
    readonly now: number,
    readonly width: number,
  ) {
    this.height = AXIS + names.length * LANE;
  }

  /** Clamped to just outside the chart, because browsers draw very large coordinates wrong. */
  x(at: number): number {
    return Math.min(1.01, Math.max(-0.01, place(this.seen, at))) * this.width;
  }

  y(model: string): number {
    return AXIS + this.names.indexOf(model) * LANE;
  }

  shows(model: string, from: number, to: number): boolean {
    return this.names.includes(model) && to >= this.seen.from && from <= this.seen.to;
  }
}

type Tell = (text: string) => void;

export function Grid({ paper }: { paper: Paper }) {
  const { seen, width, height, names } = paper;
  return (
    <>
      <g class="marks">
        {marks(seen, width / MARK_EVERY).map((at) => (
          <g key={at}>
            <line x1={paper.x(at)} x2={paper.x(at)} y1={AXIS} y2={height} />
            {paper.x(at) < width - LABEL && (
              <text x={paper.x(at) + 4} y={15}>
                {clock(at, seen.to - seen.from < 5)}
              </text>
            )}
          </g>
        ))}
      </g>
      <g class="floors">
        {names.map((name) => (
          <line key={name} x1={0} x2={width} y1={paper.y(name)} y2={paper.y(name)} />
        ))}
      </g>
    </>
  );
}

export function Phases({
  paper,
  segments,
  tell,
}: {
  paper: Paper;
  segments: readonly Segment[];
  tell: Tell;
}) {
  const shown = segments.filter(({ model, from, to }) => paper.shows(model, from, to ?? paper.now));
  return (
    <g>
      {shown.map((segment) => (
        <Band
          key={`${segment.model} ${segment.from} ${segment.phase}`}
          paper={paper}
          segment={segment}
          tell={tell}
        />
      ))}
    </g>
  );
}

function Band({ paper, segment, tell }: { paper: Paper; segment: Segment; tell: Tell }) {
  const left = paper.x(segment.from);
  const right = Math.max(left + 2, paper.x(segment.to ?? paper.now));
  const y = paper.y(segment.model) + BAND_AT;
  return (
    <g class={`band ${segment.phase}`} onPointerEnter={() => tell(ofSegment(segment, paper.now))}>
      <rect x={left} y={y} width={right - left} height={BAND} rx={3} />
      {segment.outcome && <path class="cross" d={`M${right - 4} ${y + 3}l8 8m0-8l-8 8`} />}
    </g>
  );
}

/** A line from the model that was unloaded to the model that was loaded. */
export function Swaps({ paper, swaps }: { paper: Paper; swaps: readonly Swap[] }) {
  const middle = BAND_AT + BAND / 2;
  const shown = swaps.filter(({ at, left, came }) => paper.shows(left, at, at) && paper.shows(came, at, at));
  return (
    <g class="swaps">
      {spacedOut(shown, paper).map(({ at, left, came }) => (
        <path key={at} d={`M${paper.x(at)} ${paper.y(left) + middle}V${paper.y(came) + middle}`} />
      ))}
    </g>
  );
}

/** Leaves out a swap that is too close to the previous one to be distinguishable. */
function spacedOut(swaps: readonly Swap[], paper: Paper): Swap[] {
  let last = -SWAPS_APART;
  return swaps.filter(({ at }) => {
    const isApart = paper.x(at) - last >= SWAPS_APART;
    if (isApart) last = paper.x(at);
    return isApart;
  });
}

interface RequestsProps {
  paper: Paper;
  finished: readonly Finished[];
  inProgress: readonly RequestInProgress[];
  tell: Tell;
}

export function Requests({ paper, finished, inProgress, tell }: RequestsProps) {
  const ended = finished.filter(({ model, at, seconds }) => paper.shows(model, at - seconds, at));
  const going = inProgress.filter(({ model, seconds }) => paper.shows(model, paper.now - seconds, paper.now));
  return (
    <g class="requests">
      {ended.map((request) => (
        <Bar
          key={request.n}
          paper={paper}
          request={request}
          to={request.at}
          tell={() => tell(ofRequest(request))}
        />
      ))}
      {going.map((request) => (
        <Bar
          key={`ticket ${request.ticket}`}
          paper={paper}
          request={{ ...request, status: 200 }}
          to={paper.now}
          tell={() =>
            tell(`ticket ${request.ticket} · ${request.state} · ${duration(request.seconds)} elapsed`)
          }
        />
      ))}
    </g>
  );
}

interface BarProps {
  paper: Paper;
  request: { model: string; status: number; seconds: number; waited_s: number };
  to: number;
  tell: () => void;
}

/** A thin line for the time in the queue, a bar for the time being served. */
function Bar({ paper, request, to, tell }: BarProps) {
  const from = paper.x(to - request.seconds);
  const granted = paper.x(to - request.seconds + request.waited_s);
  const y = paper.y(request.model) + REQUEST_AT;
  const isFailed = request.status >= 400 || request.status === 0;
  return (
    <g class={isFailed ? "failed" : ""} onPointerEnter={tell}>
      <line x1={from} x2={granted} y1={y + REQUEST / 2} y2={y + REQUEST / 2} />
      <rect x={granted} y={y} width={Math.max(1.5, paper.x(to) - granted)} height={REQUEST} rx={1.5} />
    </g>
  );
}

function ofSegment(segment: Segment, now: number): string {
  const { model, phase, from, to, reason, cause, outcome, said, conversations } = segment;
  const parts = [`${model} ${phase} for ${duration((to ?? now) - from)}, since ${clock(from)}`];
  if (reason) parts.push(`${reason}${cause && ` (${cause})`}`);
  if (conversations) parts.push(conversations);
  if (outcome) parts.push(`${outcome}: ${firstLine(said).cause}`);
  return parts.join(" · ");
}

function ofRequest({ model, method, path, status, waited_s, seconds, client }: Finished): string {
  return `${model} ${method} ${path} · ${status} · waited ${duration(waited_s)} · took ${duration(seconds)} · ${client}`;
}
