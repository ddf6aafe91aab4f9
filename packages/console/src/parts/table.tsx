import type { ComponentChildren } from "preact";
import type { List } from "./calls.ts";
import { FailureBox } from "./failure.tsx";

/** A column of a table. */
export interface Column<T> {
  readonly name: string;
  readonly of: (item: T) => ComponentChildren;
  /** Whether it names the row. Default: no. */
  readonly isHeading?: boolean;
}

/** A table. It scrolls if it is wider than the page. */
export function Table<T>({
  caption,
  columns,
  items,
  keyOf,
}: {
  /** The name of its content. */
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: without a mouse, users scroll it with the arrow keys
    <section class="scrolls" aria-label={caption} tabIndex={0}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={keyOf(item)}>
              {columns.map(({ name, of, isHeading }) =>
                isHeading ? (
                  <th key={name} scope="row">
                    {of(item)}
                  </th>
                ) : (
                  <td key={name}>{of(item)}</td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A table of a list. @param none the text for an empty list */
export function ListTable<T>({
  list: { items, isBusy, error, again, more },
  none,
  ...table
}: { readonly list: List<T>; readonly none: ComponentChildren } & Omit<Parameters<typeof Table<T>>[0], "items">) {
  return (
    <>
      {items && items.length > 0 && <Table {...table} items={items} />}
      {items?.length === 0 && !more && <p>{none}</p>}
      <FailureBox error={error} again={again} />
      {!items && isBusy && <p>Reading …</p>}
      {more && (
        <button type="button" aria-disabled={isBusy} onClick={more}>
          {isBusy ? "Reading …" : "Show more"}
        </button>
      )}
    </>
  );
}

/** The facts of one thing. */
export function Facts({ facts }: { readonly facts: readonly (readonly [name: string, value: ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
