import { Inbox } from "lucide-preact";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { List } from "./calls.ts";
import { FailureBox } from "./failure.tsx";

export interface Column<T> {
  readonly name: string;
  readonly of: (item: T) => ComponentChildren;
  /** Whether the cells of the column are row headings. Default: no. */
  readonly isHeading?: boolean;
}

/** A table with more rows than this number is "long": it renders only the rows in and near the visible part. */
const WHOLE = 200;

/** Number of rows that a long table renders above and below the visible rows. The Tab key cannot reach other rows. */
const BEYOND = 20;

/**
 * Maximum `min-width` of a long table, in pixels. When the table becomes long, its current width becomes its
 * `min-width`. A width above the maximum is reduced to the maximum. If the container is narrower than `min-width`, the
 * table scrolls horizontally.
 */
const MAX_MIN_WIDTH = 1152;

/** Returns the rows that a table renders at the current scroll position. */
function useRowsInSight(count: number) {
  const body = useRef<HTMLTableSectionElement>(null);
  const head = useRef<HTMLTableRowElement>(null);
  const [widths, setWidths] = useState<readonly number[]>([]);
  const [{ start, rowHeight }, setSight] = useState({ start: 0, rowHeight: 44 });
  const isLong = count > WHOLE;
  const shown = isLong ? Math.ceil(innerHeight / rowHeight) + 2 * BEYOND : count;
  useLayoutEffect(() => {
    if (!isLong) return;
    const look = () => {
      const height = body.current?.querySelector("tr[aria-rowindex]")?.getBoundingClientRect().height || rowHeight;
      const above = -(body.current?.getBoundingClientRect().top ?? 0) / height;
      // `first` changes only in steps of ten rows, so most scroll events do not render the table again.
      const first = Math.max(0, Math.floor(above / 10) * 10 - BEYOND);
      setSight((before) =>
        before.start === first && before.rowHeight === height ? before : { start: first, rowHeight: height },
      );
    };
    look();
    // Keep the current column widths. Otherwise, the widths would change while the user scrolls.
    setWidths([...(head.current?.cells ?? [])].map((cell) => cell.getBoundingClientRect().width));
    // Scroll events do not bubble, so the listener captures them.
    const options = { capture: true, passive: true };
    addEventListener("scroll", look, options);
    addEventListener("resize", look, options);
    return () => {
      removeEventListener("scroll", look, options);
      removeEventListener("resize", look, options);
      setWidths([]);
    };
  }, [isLong]);
  const from = Math.min(start, Math.max(0, count - shown));
  const end = Math.min(count, from + shown);
  return { body, head, widths, isLong, start: from, end, before: from * rowHeight, after: (count - end) * rowHeight };
}

/** If a cell is too narrow for its text, copies the text to `title`. The browser shows `title` on hover. */
function showWhole({ target }: { readonly target: EventTarget | null }): void {
  const cell = (target as Element).closest<HTMLElement>("td, th");
  if (cell) cell.title = cell.scrollWidth > cell.clientWidth ? cell.innerText : "";
}

/** Shows a table. A table with more than `WHOLE` rows renders only the rows in and near the visible part. */
export function Table<T>({
  caption,
  columns,
  items,
  keyOf,
}: {
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly items: readonly T[];
  readonly keyOf: (item: T) => string;
}) {
  const { body, head, widths, isLong, start, end, before, after } = useRowsInSight(items.length);
  const total = widths.reduce((sum, width) => sum + width, 0);
  const gap = (height: number) => height > 0 && <tr aria-hidden style={{ height: `${height}px` }} />;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: keyboard users scroll the section with the arrow keys
    <section class="scrolls" aria-label={caption} tabIndex={0}>
      <table
        class={isLong ? "long" : undefined}
        style={
          widths.length > 0 ? { tableLayout: "fixed", minWidth: `${Math.min(total, MAX_MIN_WIDTH)}px` } : undefined
        }
        onPointerOver={isLong ? showWhole : undefined}
        aria-rowcount={isLong ? items.length + 1 : undefined}
      >
        <caption>{caption}</caption>
        <thead>
          <tr ref={head}>
            {columns.map(({ name }, i) => (
              <th key={name} scope="col" style={{ width: widths[i] && `${(100 * widths[i]) / total}%` }}>
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body}>
          {gap(before)}
          {items.slice(start, end).map((item, i) => (
            <tr key={keyOf(item)} aria-rowindex={isLong ? start + i + 2 : undefined}>
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
          {gap(after)}
        </tbody>
      </table>
    </section>
  );
}

export function Skeleton() {
  return (
    <div class="skeleton">
      <p class="unseen">Reading …</p>
      {Array.from({ length: 6 }, (_, i) => (
        <span key={i} />
      ))}
    </div>
  );
}

/** Shows a list as a table. If the list is empty, shows the text `none` and the button `create`. */
export function ListTable<T>({
  list: { items, isBusy, error, again, more },
  none,
  create,
  ...table
}: {
  readonly list: List<T>;
  readonly none: string;
  readonly create?: ComponentChildren;
} & Omit<Parameters<typeof Table<T>>[0], "items">) {
  return (
    <>
      {items && items.length > 0 && <Table {...table} items={items} />}
      {items?.length === 0 && !more && (
        <div class="empty">
          <Inbox aria-hidden />
          <p>{none}</p>
          {create}
        </div>
      )}
      <FailureBox error={error} again={again} />
      {!items && isBusy && <Skeleton />}
      {more && <MoreButton isBusy={isBusy} error={error} more={more} />}
    </>
  );
}

/**
 * Shows a button that reads the next items. When the user scrolls near the button, the component reads the next items
 * without a click. After a failed read, the user must click the button.
 */
function MoreButton({ isBusy, error, more }: Pick<List<unknown>, "isBusy" | "error" | "more">) {
  const button = useRef<HTMLButtonElement>(null);
  const isWaiting = !isBusy && error === undefined;
  useEffect(() => {
    if (!isWaiting || !button.current) return;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some(({ isIntersecting }) => isIntersecting)) more?.();
      },
      { root: document.querySelector(".page"), rootMargin: "0px 0px 1500px 0px" },
    );
    observer.observe(button.current);
    return () => observer.disconnect();
  }, [isWaiting]);
  return (
    <p class="buttons">
      <button type="button" ref={button} aria-disabled={isBusy} onClick={more}>
        {isBusy ? "Reading …" : "Show more"}
      </button>
    </p>
  );
}

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
