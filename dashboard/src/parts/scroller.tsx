// A scrolling area: keyboard users must be able to focus it, and a focusable area needs an accessible name.

import type { ComponentChildren, Ref } from "preact";

interface ScrollerProps {
  class: string;
  label: string;
  children: ComponentChildren;
  frame?: Ref<HTMLElement> | null;
  onScroll?: () => void;
}

export function Scroller({ class: look, label, children, frame = null, onScroll }: ScrollerProps) {
  return (
    // In the tab order, so that the keyboard can scroll it
    <section class={look} aria-label={label} tabIndex={0} ref={frame} onScroll={onScroll}>
      {children}
    </section>
  );
}
