// The list of log lines. It stays at its end while lines arrive; scrolling up pauses, and returning to the end goes on.

import { Component } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Scroller } from "../parts/scroller";
import { clock, counted, day } from "../words";
import { beginsDay, type LogLine, sourceOf } from "./lines";

const MOST_SHOWN = 1000;
const NEAR_THE_END_PX = 40;
const WIDEST_SOURCE = 20;

interface LogViewProps {
  lines: LogLine[];
  /** The number of lines that came since the pause. */
  news: number;
  hasOneSource: boolean;
  isPaused: boolean;
  pause: (paused: boolean) => void;
}

export function LogView({ lines, news, hasOneSource, isPaused, pause }: LogViewProps) {
  const { view, onScroll } = useEnd(lines, isPaused, pause);
  const shown = lines.slice(-MOST_SHOWN);
  const now = Date.now() / 1000;
  const widest = Math.min(WIDEST_SOURCE, Math.max(...shown.map((line) => sourceOf(line).length), 1));
  return (
    <div class="log-frame" style={{ "--source": `${widest}ch` }}>
      <Scroller
        class={`card log${hasOneSource ? " one-source" : ""}`}
        label="Log lines"
        frame={view}
        onScroll={onScroll}
      >
        {shown.map((line, place) => (
          <Row key={line.n} line={line} beginsDay={beginsDay(line, shown[place - 1], now)} />
        ))}
        {lines.length === 0 && <p class="empty">No lines.</p>}
      </Scroller>
      {isPaused && news > 0 && (
        <button type="button" class="primary news" onClick={() => pause(false)}>
          {counted(news, "new line")} ↓
        </button>
      )}
    </div>
  );
}

function useEnd(lines: LogLine[], isPaused: boolean, pause: (paused: boolean) => void) {
  const view = useRef<HTMLElement>(null);
  const isAway = useRef(false);
  useLayoutEffect(() => {
    if (!isPaused) view.current?.scrollTo({ top: view.current.scrollHeight });
  }, [lines, isPaused]);
  const onScroll = () => {
    if (!view.current) return;
    const { scrollTop, scrollHeight, clientHeight } = view.current;
    const wasAway = isAway.current;
    isAway.current = scrollHeight - scrollTop - clientHeight > NEAR_THE_END_PX;
    if (isAway.current !== wasAway) pause(isAway.current);
  };
  return { view, onScroll };
}

interface RowProps {
  line: LogLine;
  beginsDay: boolean;
}

/** Rendered once: a server that writes a lot changes the list four times a second. */
class Row extends Component<RowProps> {
  override shouldComponentUpdate({ line, beginsDay }: RowProps): boolean {
    return line !== this.props.line || beginsDay !== this.props.beginsDay;
  }

  override render({ line, beginsDay }: RowProps) {
    return (
      <>
        {beginsDay && <p class="day">{day(line.at)}</p>}
        <div class={`line ${line.level ?? ""}`}>
          <time>{clock(line.at)}</time>
          <span class="source">{sourceOf(line)}</span>
          <span class="text">
            {line.level && <span class="level">{line.level}</span>}
            {line.text}
          </span>
        </div>
      </>
    );
  }
}
