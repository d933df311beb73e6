// An answer of the API that only one part of a page needs.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

interface Answered<Value> {
  answer: Value | null;
  trouble: string;
}

/** The answer of the API, or why there is none; asked again after `everyMs`, if given. */
export function useAnswer<Value>(ask: () => Promise<Value>, about: unknown[], everyMs = 0): Answered<Value> {
  const state = useSignal<Answered<Value>>({ answer: null, trouble: "" });
  useEffect(() => {
    let isOver = false;
    const look = async () => {
      const news = await ask().then(
        (answer) => ({ answer, trouble: "" }),
        (problem) => ({ answer: null, trouble: String(problem.message) }),
      );
      if (!isOver) state.value = news;
    };
    void look();
    const timer = everyMs ? setInterval(look, everyMs) : 0;
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, about);
  return state.value;
}
