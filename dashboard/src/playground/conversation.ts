// The conversation with one model.

import { computed, signal } from "@preact/signals";
import { chat } from "./chat";
import type { Reply } from "./reply";
import type { ChatRequest, Message } from "./request";

/** Two fast models stream a thousand tokens per second: rendering each of them would leave no time for the rest. */
const SHOWN_EVERY_MS = 50;

/** What applies to every model of the page. */
export interface Sampling {
  system: string;
  temperature: number;
  maxTokens: number;
}

export class Conversation {
  readonly model = signal("");
  /** What was said before the newest reply. */
  readonly said = signal<Message[]>([]);
  readonly reply = signal<Reply | null>(null);
  readonly isResponding = computed(() => this.reply.value !== null && this.reply.value.state !== "over");
  /** The last message has no reply, or one that can be replaced. */
  readonly canAskAgain = computed(() => this.said.value.length > 0 && !this.isResponding.value);
  private over = new AbortController();

  request({ system, temperature, maxTokens }: Sampling): ChatRequest {
    const first: Message[] = system ? [{ role: "system", content: system }] : [];
    return {
      model: this.model.value,
      messages: [...first, ...this.said.value],
      temperature,
      max_tokens: maxTokens,
      stream: true,
    };
  }

  send(message: Message, sampling: Sampling): void {
    const text = this.reply.value?.text;
    const replied: Message[] = text ? [{ role: "assistant", content: text }] : [];
    this.said.value = [...this.said.value, ...replied, message];
    void this.ask(sampling);
  }

  /** Asks for another reply to the last message. */
  async ask(sampling: Sampling): Promise<void> {
    this.stop();
    const over = (this.over = new AbortController());
    let shownAt = 0;
    for await (const news of chat(this.request(sampling), over.signal)) {
      if (this.over !== over) return;
      const isDue = news.state !== "answering" || Date.now() - shownAt > SHOWN_EVERY_MS;
      if (!isDue) continue;
      this.reply.value = news;
      shownAt = Date.now();
    }
  }

  stop(): void {
    this.over.abort();
  }

  clear(): void {
    this.stop();
    this.over = new AbortController();
    this.said.value = [];
    this.reply.value = null;
  }

  /** Continues the conversation with another model, from its last message. */
  startFrom(other: Conversation): void {
    this.clear();
    this.said.value = other.said.value;
  }
}
