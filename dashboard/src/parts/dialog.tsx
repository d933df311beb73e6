// A confirmation dialog. The browser's own <dialog> traps the focus and closes on Escape.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface DialogProps {
  title: string;
  children: ComponentChildren;
  close: () => void;
}

export function Dialog({ title, children, close }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-label={title} onClose={close}>
      <h2>{title}</h2>
      {children}
    </dialog>
  );
}
