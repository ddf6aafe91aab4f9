import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { Section } from "../parts/page.tsx";
import { Table } from "../parts/table.tsx";
import { clockText, type Line, type Minute, minutesOf, valueText } from "./history.ts";

const HEIGHT = 208;
const AXIS_FONT = "12px system-ui, sans-serif";
/** The shortest period that a chart shows, in seconds. */
const MIN_ZOOM = 60;

/** The period that all charts show, in seconds since 1970. Undefined if the charts show all samples. */
export type Period = { readonly from: number; readonly to: number } | undefined;

/** The texts and lines of a chart. */
export interface ChartContent {
  readonly title: string;
  /** A sentence that describes the values. */
  readonly about: string;
  readonly lines: readonly Line[];
  readonly textOf: (value: number) => string;
  /** If `lines` is empty, this text replaces the chart. Required if `lines` may be empty. */
  readonly none?: string;
}

interface ChartProps extends ChartContent {
  /** The end of each sample, in milliseconds since 1970. */
  readonly ends: readonly number[];
  readonly period: Period;
  readonly onPeriod: (period: Period) => void;
}

/** Shows a line chart, and a legend with the values under the pointer. A button adds a table of means per minute. */
export function Chart({ title, about, none, ...chart }: ChartProps) {
  const [isTable, setTable] = useState(false);
  const { lines, ends, textOf } = chart;
  const hasLines = lines.length > 0 && ends.length > 0;
  return (
    <Section
      title={title}
      actions={
        hasLines && (
          <button type="button" class="small" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
            Table<span class="unseen"> of {title}</span>
          </button>
        )
      }
    >
      <p class="small">{about}</p>
      {!hasLines && (
        <p class="chart-none">{ends.length > 0 ? none : "The service stores the first sample within ten seconds."}</p>
      )}
      {hasLines && <Plot {...chart} title={title} key={lines.map(({ name }) => name).join("\n")} />}
      {hasLines && isTable && (
        <div class="chart-table">
          <Table
            caption={`${title}: mean of each minute`}
            items={minutesOf(ends, lines)}
            keyOf={({ end }) => String(end)}
            columns={[
              { name: "Minute ending at (UTC)", isHeading: true, of: ({ end }) => clockText(end).slice(0, 5) },
              ...lines.map(({ name }, i) => ({
                name,
                of: ({ means }: Minute) => valueText(means[i], textOf),
              })),
            ]}
          />
        </div>
      )}
    </Section>
  );
}

/** Draws the lines of a chart. After the first render, only `ends`, `period` and the values of `lines` may change. */
function Plot({ title, ends, lines, textOf, period, onPeriod }: Omit<ChartProps, "about" | "none">) {
  const place = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLUListElement>(null);
  const plot = useRef<uPlot>();
  const [at, setAt] = useState<number>();
  useEffect(() => {
    const target = place.current as HTMLDivElement;
    // The colours depend on the colour scheme, so the style sheet defines the colours.
    const colorOf = (i: number) => getComputedStyle(legend.current?.children[i] ?? target).color;
    const lineColor = () => getComputedStyle(target).borderTopColor;
    const quiet = () => getComputedStyle(target).color;
    const axis = { stroke: quiet, font: AXIS_FONT, grid: { stroke: lineColor, width: 1 }, ticks: { show: false } };
    const options: uPlot.Options = {
      width: target.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      padding: [8, 28, 0, 0],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
      axes: [
        { ...axis, size: 28, space: 64, values: (_, splits) => splits.map((seconds) => timeLabel(seconds, splits)) },
        { ...axis, size: 64, values: (_, splits) => splits.map(textOf) },
      ],
      series: [
        {},
        ...lines.map(({ name }, i) => ({
          label: name,
          stroke: () => colorOf(i),
          width: 1.75,
          ...(lines.length === 1 && { fill: () => colorOf(i).replace("rgb(", "rgba(").replace(")", ", 0.12)") }),
          spanGaps: true,
          // The browser draws no line for a single sample, so the chart shows a point.
          points: { show: (self: uPlot) => self.data[0].length === 1, size: 7, fill: () => colorOf(i) },
        })),
      ],
      cursor: {
        y: false,
        sync: { key: "overview", setSeries: false },
        drag: { x: true, y: false, setScale: false, dist: 6 },
        points: { size: 7 },
      },
      hooks: {
        setCursor: [({ cursor: { idx } }) => setAt(idx ?? undefined)],
        setSelect: [
          (self) => {
            const { left, width } = self.select;
            if (width === 0) return;
            self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            // uPlot copies the selection to all charts with the same `sync.key`, so this hook runs once per chart.
            const [from, to] = [self.posToVal(left, "x"), self.posToVal(left + width, "x")];
            const missing = Math.max(0, MIN_ZOOM - (to - from)) / 2;
            onPeriod({ from: from - missing, to: to + missing });
          },
        ],
      },
    };
    const created = new uPlot(options, dataOf(ends, lines), target);
    plot.current = created;
    const size = new ResizeObserver(() => created.setSize({ width: target.clientWidth, height: HEIGHT }));
    size.observe(target);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => created.redraw(false, true);
    scheme.addEventListener("change", redraw);
    return () => {
      size.disconnect();
      scheme.removeEventListener("change", redraw);
      created.destroy();
      plot.current = undefined;
    };
  }, []);
  useEffect(() => {
    const [first = 0, last = 0] = [ends[0], ends.at(-1)];
    const { from, to } = period ?? { from: Math.min(first / 1000, last / 1000 - MIN_ZOOM), to: last / 1000 };
    plot.current?.batch(() => {
      plot.current?.setData(dataOf(ends, lines), false);
      plot.current?.setScale("x", { min: from, max: to });
    });
  }, [ends, lines, period]);
  const shown = at !== undefined && at < ends.length ? at : undefined;
  const index = shown ?? ends.length - 1;
  const move = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -6, PageDown: 6 }[event.key];
    const self = plot.current;
    if (step === undefined || !self) return;
    event.preventDefault();
    const next = Math.min(ends.length - 1, Math.max(0, index + step));
    self.setCursor({ left: self.valToPos((ends[next] as number) / 1000, "x"), top: 0 });
  };
  return (
    <>
      <figure
        class="chart"
        ref={place}
        aria-label={`Chart of ${title}. The arrow keys move through the samples`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the arrow keys move through the samples
        tabIndex={0}
        onKeyDown={move}
        onDblClick={() => onPeriod(undefined)}
      />
      <div class="chart-values" aria-live={shown === undefined ? "off" : "polite"}>
        <p class="small">
          {shown === undefined ? "Latest" : "At"} <time>{clockText(ends[index] as number)}</time>
        </p>
        <ul class="chart-legend" ref={legend}>
          {lines.map(({ name, values }, i) => (
            <li key={name} style={{ color: `var(--line-${i + 1})` }}>
              <span>
                {name} <strong>{valueText(values[index], textOf)}</strong>
              </span>
            </li>
          ))}
        </ul>
      </div>
    </>
  );
}

function dataOf(ends: readonly number[], lines: readonly Line[]): uPlot.AlignedData {
  return [ends.map((end) => end / 1000), ...lines.map(({ values }) => [...values])];
}

/** Formats a label of the time axis. If the labels are less than a minute apart, each label includes the seconds. */
function timeLabel(seconds: number, [first = 0, second = 60]: readonly number[]): string {
  return clockText(seconds * 1000).slice(0, second - first < 60 ? 8 : 5);
}
