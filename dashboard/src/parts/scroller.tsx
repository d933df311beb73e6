// What scrolls must be reachable by keyboard, and then it needs a name.

import type { ComponentChildren, Ref } from "preact";

interface ScrollerWishes {
  class: string;
  label: string;
  children: ComponentChildren;
  frame?: Ref<HTMLElement> | null;
  onScroll?: () => void;
}

export function Scroller({ class: look, label, children, frame = null, onScroll }: ScrollerWishes) {
  return (
    // In the tab order: see above
    <section class={look} aria-label={label} tabIndex={0} ref={frame} onScroll={onScroll}>
      {children}
    </section>
  );
}
