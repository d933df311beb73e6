// Why a request took its time, below its row.

import { finished, inProgress, journal, models, now, queue, stale } from "../data/state";
import type { Finished, RequestInProgress } from "../data/types";
import { Prose } from "../parts/prose";
import { linkTo } from "../route";
import { swapReports } from "../timeline/lanes";
import { duration, firstLine } from "../words";
import { explained, type Share, swapsFor } from "./explanation";

const WORTH_TELLING_S = 0.1;

export function FinishedReason({ request }: { request: Finished }) {
  const swaps = swapReports(journal.value);
  const { shares, sentences } = explained(request, finished.value, inProgress.value, swaps, now.value);
  return (
    <div class="reasons">
      <Shares shares={shares} />
      {sentences.map((sentence) => (
        <p key={sentence}>{sentence}</p>
      ))}
      <p class="muted">Request ID {request.id}</p>
      <Links model={request.model} />
    </div>
  );
}

const COLOURS: Record<Share["name"], string> = {
  waited: "--loading",
  "until the first byte": "--draining",
  answering: "--ready",
};

function Shares({ shares }: { shares: Share[] }) {
  const whole = shares.reduce((sum, { seconds }) => sum + seconds, 0) || 1;
  return (
    <>
      <div class="shares" aria-hidden="true">
        {shares.map(({ name, seconds }) => (
          <i
            key={name}
            style={{ width: `${(seconds / whole) * 100}%`, background: `var(${COLOURS[name]})` }}
          />
        ))}
      </div>
      <ul class="legend">
        {shares.map(({ name, seconds }) => (
          <li key={name}>
            <i style={{ background: `var(${COLOURS[name]})` }} aria-hidden="true" />
            {name} {duration(seconds)}
          </li>
        ))}
      </ul>
    </>
  );
}

export function CurrentReason({ request }: { request: RequestInProgress }) {
  return (
    <div class="reasons">
      <p>
        <Prose text={currentReason(request)} />
      </p>
      {request.state !== "waiting" &&
        earlierWait(request).map((sentence) => <p key={sentence}>{sentence}</p>)}
      <Links model={request.model} />
    </div>
  );
}

function currentReason({ ticket, model, state, host }: RequestInProgress): string {
  const waiting = queue.value.find((each) => each.ticket === ticket);
  if (waiting) {
    const left = waiting.expected_s ? Math.max(0, waiting.expected_s - stale.value) : null;
    return `It waits: ${firstLine(waiting.why).cause}${left === null ? "" : `; about ${duration(left)} left`}.`;
  }
  if (host)
    return `It was forwarded to ${host}, which ${state === "answering" ? "is answering" : "has not answered yet"}.`;
  const others = (models.value?.find((each) => each.model === model)?.in_flight ?? 1) - 1;
  const doing = state === "answering" ? "is answering" : "has it and has not answered yet";
  return `${model} ${doing}${others > 0 ? `, and serves ${others} more at the same time` : ""}.`;
}

/** What an answer that takes long has waited for before. */
function earlierWait({ model, waited_s, seconds }: RequestInProgress): string[] {
  const began = now.value - stale.value - seconds;
  const swaps = swapsFor(model, began, waited_s, swapReports(journal.value));
  return waited_s < WORTH_TELLING_S ? swaps : [`It waited ${duration(waited_s)} for ${model}.`, ...swaps];
}

function Links({ model }: { model: string }) {
  return (
    <p class="tools">
      <a href={linkTo("models", { model })}>View model</a>
      <a href={linkTo("timeline")}>View timeline</a>
      <a href={linkTo("logs", { model })}>View log</a>
    </p>
  );
}
