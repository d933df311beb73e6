// Sentences for people, in which a command or a key stands between backticks, as it does on the command line.

/** A command or a key is shown as code. A backtick without a partner stays. */
export function Prose({ text }: { text: string }) {
  const pieces = text.split(/`([^`\n]+)`/);
  return <>{pieces.map((piece, n) => (n % 2 ? <code key={n}>{piece}</code> : piece))}</>;
}
