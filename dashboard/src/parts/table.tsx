// A table with sortable columns. On narrow screens it scrolls horizontally. Its rows are rendered as it is scrolled, so
// that one with hundreds of rows opens and sorts as quickly as a short one.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Scroller } from "./scroller";

export interface Column<Row> {
  name: string;
  /** The sort key; a column without one is not sortable. */
  by?: (row: Row) => string | number;
  cell: (row: Row) => ComponentChildren;
  kind?: "number" | "long" | "action";
  /** Not shown on phones, where other columns matter more. */
  isMinor?: boolean;
}

const STEP = 50;

interface Wishes<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string | number;
  empty: string;
  /** What a row shows below itself when its first cell is clicked. */
  details?: (row: Row) => ComponentChildren;
}

export function Table<Row>({ caption, columns, rows, keyOf, empty, details }: Wishes<Row>) {
  const order = useSignal<{ column: number; down: boolean } | null>(null);
  const by = order.value && columns[order.value.column]?.by;
  const sorted = by ? [...rows].sort((one, other) => compared(by(one), by(other))) : rows;
  const { frame, onScroll, most, toTop } = useGrowth(rows.length);
  const shown = (order.value?.down ? sorted.toReversed() : sorted).slice(0, most);
  const turn = (column: number) => {
    const isSame = order.value?.column === column;
    order.value = isSame && order.value?.down ? null : { column, down: isSame };
    toTop();
  };
  const sortOf = (column: number): Sort => {
    if (order.value?.column !== column) return undefined;
    return order.value.down ? "descending" : "ascending";
  };
  return (
    <Scroller class="table" label={caption} frame={frame} onScroll={onScroll}>
      <table aria-rowcount={shown.length < rows.length ? rows.length + 1 : undefined}>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column, at) => (
              <th key={column.name} scope="col" class={classOf(column)} aria-sort={sortOf(at)}>
                {column.by ? (
                  <button type="button" onClick={() => turn(at)}>
                    {column.name}
                    <span aria-hidden="true">{arrowOf(sortOf(at))}</span>
                  </button>
                ) : column.kind === "action" ? (
                  <span class="unseen">{column.name}</span>
                ) : (
                  column.name
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map((row) => (
            <TableRow key={keyOf(row)} row={row} columns={columns} details={details} />
          ))}
        </tbody>
      </table>
      {rows.length === 0 && <p class="empty">{empty}</p>}
    </Scroller>
  );
}

/** The number of rows to render: more of them while the end of the rendered ones is near. */
function useGrowth(all: number) {
  const frame = useRef<HTMLElement>(null);
  const most = useSignal(STEP);
  const onScroll = () => {
    if (!frame.current || most.value >= all) return;
    const { scrollTop, scrollHeight, clientHeight } = frame.current;
    if (scrollHeight - scrollTop < 2 * clientHeight) most.value += STEP;
  };
  useEffect(onScroll, [most.value, all]); // on a large screen there is nothing to scroll yet
  const toTop = () => {
    most.value = STEP;
    frame.current?.scrollTo({ top: 0 });
  };
  return { frame, onScroll, most: most.value, toTop };
}

interface TableRowProps<Row> {
  row: Row;
  columns: Column<Row>[];
  details: ((row: Row) => ComponentChildren) | undefined;
}

function TableRow<Row>({ row, columns, details }: TableRowProps<Row>) {
  const isOpen = useSignal(false);
  const turn = (event: MouseEvent) => {
    if (details && isMeantForRow(event)) isOpen.value = !isOpen.value;
  };
  const opener = (content: ComponentChildren) => (
    <button type="button" class="quiet opener" aria-expanded={isOpen.value}>
      <span class="twist" aria-hidden="true" />
      {content}
    </button>
  );
  return (
    <>
      <tr class={details && "opens"} onClick={turn}>
        {columns.map((column, at) => (
          <td key={column.name} class={classOf(column)}>
            {details && at === 0 ? opener(column.cell(row)) : column.cell(row)}
          </td>
        ))}
      </tr>
      {details && isOpen.value && (
        <tr class="more">
          <td colSpan={columns.length}>{details(row)}</td>
        </tr>
      )}
    </>
  );
}

function classOf<Row>({ kind, isMinor }: Column<Row>): string {
  return [kind, isMinor && "minor"].filter(Boolean).join(" ");
}

/** A click on another button, or one that ends a selection of text, is not. */
function isMeantForRow({ target }: MouseEvent): boolean {
  const control = target instanceof Element && target.closest("a, button");
  return control ? control.classList.contains("opener") : document.getSelection()?.isCollapsed !== false;
}

type Sort = "ascending" | "descending" | undefined;

function arrowOf(sort: Sort): string {
  if (sort === undefined) return "";
  return sort === "ascending" ? " ↑" : " ↓";
}

function compared(one: string | number, other: string | number): number {
  return typeof one === "string" ? one.localeCompare(String(other)) : one - Number(other);
}
