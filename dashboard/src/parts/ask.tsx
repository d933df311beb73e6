// A confirmation dialog. The browser's own <dialog> traps the focus and closes on Escape.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface AskWishes {
  title: string;
  children: ComponentChildren;
  close: () => void;
}

export function Ask({ title, children, close }: AskWishes) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-label={title} onClose={close}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}
