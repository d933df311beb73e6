// Layout that all pages share.

import type { ComponentChildren } from "preact";
import { Prose } from "./prose";

interface PageProps {
  title: string;
  about: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
}

export function Page({ title, about, tools, children }: PageProps) {
  return (
    <>
      <header class="page-head">
        <div>
          <h1>{title}</h1>
          <p class="muted">{typeof about === "string" ? <Prose text={about} /> : about}</p>
        </div>
        {tools && <div class="tools">{tools}</div>}
      </header>
      {children}
    </>
  );
}

interface CardProps {
  title: string;
  note?: ComponentChildren;
  tools?: ComponentChildren;
  children: ComponentChildren;
}

export function Card({ title, note, tools, children }: CardProps) {
  return (
    <section class="card" aria-label={title}>
      <header class="card-head">
        <h2>{title}</h2>
        {note && <span class="muted">{note}</span>}
        {tools && <div class="tools">{tools}</div>}
      </header>
      {children}
    </section>
  );
}

export function Figure({ name, value, note }: { name: string; value: string; note?: string }) {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>
        {value}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}

interface SectionProps {
  title: string;
  note?: ComponentChildren;
  children: ComponentChildren;
}

/** A part of a card. */
export function Section({ title, note, children }: SectionProps) {
  return (
    <section class="part" aria-label={title}>
      <h2>
        {title} {note && <span class="muted">{note}</span>}
      </h2>
      {children}
    </section>
  );
}

/** A name and its value, inside <dl class="facts">. */
export function Fact({ name, value }: { name: string; value: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
