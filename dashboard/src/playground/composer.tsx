// The message that is being written, and its images.

import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { showError } from "../parts/actions";
import { type Message, userMessage } from "./request";

interface ComposerProps {
  takesImages: boolean;
  isResponding: boolean;
  send: (message: Message) => void;
  stop: () => void;
}

export function Composer({ takesImages, isResponding, send, stop }: ComposerProps) {
  const draft = useSignal("");
  const images = useSignal<string[]>([]);
  const isEmpty = !draft.value.trim();
  const submit = () => {
    if (isEmpty || isResponding) return;
    send(userMessage(draft.value, images.value));
    draft.value = "";
    images.value = [];
  };
  return (
    <form
      class="card composer"
      aria-label="Message"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Images urls={images.value} remove={(at) => (images.value = images.value.filter((_, n) => n !== at))} />
      <textarea
        rows={2}
        aria-label="Your message"
        placeholder="Type a message"
        value={draft.value}
        onInput={(event) => (draft.value = event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      {takesImages && <ImageButton add={(urls) => (images.value = [...images.value, ...urls])} />}
      {isResponding ? (
        <button type="button" onClick={stop}>
          Stop
        </button>
      ) : (
        <button type="submit" class="primary" disabled={isEmpty}>
          Send
        </button>
      )}
    </form>
  );
}

function Images({ urls, remove }: { urls: string[]; remove: (at: number) => void }) {
  if (!urls.length) return null;
  return (
    <ul class="images">
      {urls.map((url, n) => (
        <li key={n}>
          <img src={url} alt={`Image ${n + 1}`} />
          <button type="button" aria-label={`Remove image ${n + 1}`} onClick={() => remove(n)}>
            ✕
          </button>
        </li>
      ))}
    </ul>
  );
}

function ImageButton({ add }: { add: (urls: string[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  const read = async (files: FileList | null) => {
    try {
      add(await Promise.all([...(files ?? [])].map(asDataUrl)));
    } catch (problem) {
      showError(problem);
    }
    if (input.current) input.current.value = ""; // so that the same file can be added again
  };
  return (
    <>
      <input
        ref={input}
        type="file"
        accept="image/*"
        multiple
        hidden
        onChange={(event) => void read(event.currentTarget.files)}
      />
      <button type="button" onClick={() => input.current?.click()}>
        Add image
      </button>
    </>
  );
}

function asDataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${file.name} cannot be read: ${reader.error?.message}`));
    reader.readAsDataURL(file);
  });
}
