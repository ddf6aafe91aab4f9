import { useMemo, useRef, useState } from "preact/hooks";
import type { ServiceSample } from "../../../../gen/usergroup/admin/v1/metrics_pb.ts";
import { formatEnvironmentName, parseEnvironmentName } from "../../../operator/src/environment-name.ts";
import { countText } from "../../../operator/src/words.ts";
import { CommandLine } from "../parts/command.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Page, Section } from "../parts/page.tsx";
import { Skeleton, Table } from "../parts/table.tsx";
import { Visible, visibleText } from "../parts/visible.tsx";
import { useWatched } from "../parts/watch.ts";
import { go, hrefOf, type Params } from "../routes.ts";
import { useSession } from "../session/session.ts";
import { Chart, type ChartContent, type Period } from "./chart.tsx";
import {
  clockText,
  durationLine,
  endOf,
  type Hour,
  lastMinute,
  linesByName,
  msOf,
  msText,
  numberText,
  rateLine,
  SAMPLE_SECONDS,
  valueText,
} from "./history.ts";

/** The periods that the buttons select, in minutes. */
const PERIODS = [5, 15, 60] as const;

/** Shows metrics of the calls in the last hour. The user selects all calls, one method or one environment. */
export function OverviewPage({ params }: { readonly params: Params }) {
  const { admin, isRoot, caller } = useSession();
  const { method, of } = isRoot ? params : {};
  const environment = method === undefined && of !== undefined ? parseEnvironmentName(of) : undefined;
  const { value: hour, error } = useWatched<Hour>(
    `history ${method} ${of}`,
    async (signal, { value: before }) => {
      const response = await admin.getMetricsHistory({ method, environment }, { signal });
      const isOther = before !== undefined && (before.isOther || before.instance !== response.instance);
      return { ...response, isOther };
    },
    () => SAMPLE_SECONDS * 1000,
  );
  // After a new selection, `hour` is undefined until the response arrives. In the meantime, the select field uses the
  // options of the last response.
  const latest = useRef(hour);
  latest.current = hour ?? latest.current;
  const own = caller.environment && formatEnvironmentName(caller.environment);
  const what = method ?? (environment ? of : own);
  return (
    <Page
      title="Overview"
      beside={
        <p class="small">
          <Visible text={what === undefined ? "All calls" : `Calls of ${what}`} /> in the last hour, updated every{" "}
          {SAMPLE_SECONDS} seconds while the page is visible. Times are in UTC.
        </p>
      }
      actions={isRoot && <Choice method={method} of={of} hour={latest.current} />}
    >
      <FailureBox error={error} isRead />
      {hour?.isOther && (
        <p class="note">
          Another process has answered: the service was restarted, or several processes share this address. The charts
          show only the samples of the process that answered last. To see all processes, use a monitoring system.
        </p>
      )}
      {!hour && error === undefined && (
        <section class="card">
          <Skeleton />
        </section>
      )}
      {hour && <Charts hour={hour} isOfAll={what === undefined} />}
      {hour && isRoot && <Sums hour={hour} />}
      <CommandLine command="metrics" options={{ method }} env={environment && of} />
    </Page>
  );
}

function Choice({ method, of, hour }: { readonly method?: string; readonly of?: string; readonly hour?: Hour }) {
  const { env } = useSession();
  const methods = namesWith(
    hour?.methods.map((each) => each.method),
    method,
  );
  const environments = namesWith(
    hour?.environments.flatMap(({ environment }) => (environment ? formatEnvironmentName(environment) : [])),
    of,
  );
  const value = method !== undefined ? `method ${method}` : of === undefined ? "" : `of ${of}`;
  const choose = (chosen: string) => {
    const [kind = "", name = ""] = chosen.split(" ");
    go(hrefOf("overview", { env, [kind]: name }));
  };
  return (
    <label class="choice">
      Show <span class="unseen">the calls of</span>
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">All calls</option>
        <optgroup label="Methods">
          {methods.map((name) => (
            <option key={name} value={`method ${name}`}>
              {visibleText(name)}
            </option>
          ))}
        </optgroup>
        <optgroup label="Environments">
          {environments.map((name) => (
            <option key={name} value={`of ${name}`}>
              {visibleText(name)}
            </option>
          ))}
        </optgroup>
      </select>
    </label>
  );
}

/** Returns the sorted names. Adds the chosen name, because `names` contains only names with calls in the last hour. */
function namesWith(names: readonly string[] = [], chosen: string | undefined): string[] {
  return [...new Set([...names, ...(chosen === undefined ? [] : [chosen])])].sort();
}

function Charts({ hour: { samples }, isOfAll }: { readonly hour: Hour; readonly isOfAll: boolean }) {
  const [period, setPeriod] = useState<Period>();
  const ends = useMemo(() => samples.map(endOf), [samples]);
  const charts = useMemo(() => [...chartsOfCalls(samples), ...(isOfAll ? chartsOfService(samples) : [])], [samples]);
  const showMinutes = (minutes: number) => {
    const to = (ends.at(-1) ?? 0) / 1000;
    setPeriod(minutes === 60 ? undefined : { from: to - minutes * 60, to });
  };
  return (
    <>
      <Tiles samples={samples} />
      <fieldset class="periods">
        <legend class="unseen">Period of the charts</legend>
        {PERIODS.map((minutes) => (
          <button key={minutes} type="button" class="small" onClick={() => showMinutes(minutes)}>
            Last {minutes === 60 ? "hour" : `${minutes} minutes`}
          </button>
        ))}
        <span class="small">
          {period
            ? `${clockRange(period)}. Double-click a chart, or choose Last hour, to show the whole hour.`
            : "Drag over a chart to zoom."}
        </span>
      </fieldset>
      <div class="charts">
        {charts.map((chart) => (
          <Chart key={chart.title} {...chart} ends={ends} period={period} onPeriod={setPeriod} />
        ))}
      </div>
    </>
  );
}

function chartsOfCalls(samples: Hour["samples"]): readonly ChartContent[] {
  return [
    {
      title: "Calls",
      about: "Completed calls per second.",
      lines: [rateLine("calls", samples, ({ calls }) => calls)],
      textOf: numberText,
    },
    {
      title: "Durations",
      about: "Median and 99th percentile of unary calls. Values above 2.5 s appear as 2.5 s.",
      lines: [durationLine("p50", samples, ({ p50 }) => p50), durationLine("p99", samples, ({ p99 }) => p99)],
      textOf: msText,
    },
    {
      title: "Errors",
      about: "Failed calls per second, by error reason.",
      lines: linesByName(samples, ({ errors }) => errors),
      textOf: numberText,
      none: "No call failed in the last hour.",
    },
  ];
}

/** Returns the charts that describe the whole service. Only samples of all calls contain the values of these charts. */
function chartsOfService(samples: Hour["samples"]): readonly ChartContent[] {
  const refusals = linesByName(samples, ({ service }) => service?.refusals);
  return [
    {
      title: "Queue and refusals",
      about: "Calls that wait in the queues of busy workers, and calls per second that waited or were refused.",
      lines: [
        { name: "waiting now", values: samples.map(({ service }) => service?.queueLength ?? null) },
        rateLine("waited, per second", samples, ({ service }) => service?.queuedCalls ?? 0),
        ...refusals.map(({ name, values }) => ({ name: `refused: ${name}`, values })),
      ],
      textOf: numberText,
    },
    {
      title: "Redis round trips",
      about: "Round trips to Redis per second, by operation.",
      lines: linesByName(samples, ({ service }) => service && { ...service.redisRoundTrips, ...failedTrips(service) }),
      textOf: numberText,
      none: "There were no round trips to Redis in the last hour.",
    },
    {
      title: "Redis durations",
      about: "Median and 99th percentile of round trips to Redis. Values above 2.5 s appear as 2.5 s.",
      lines: [
        durationLine("p50", samples, ({ service }) => service?.redisP50),
        durationLine("p99", samples, ({ service }) => service?.redisP99),
      ],
      textOf: msText,
    },
  ];
}

function failedTrips({ redisErrors }: ServiceSample): { readonly [name: string]: number } {
  return redisErrors === 0 ? {} : { failed: redisErrors };
}

function clockRange({ from, to }: { readonly from: number; readonly to: number }): string {
  return `${clockText(from * 1000)} to ${clockText(to * 1000)}`;
}

function Tiles({ samples }: { readonly samples: Hour["samples"] }) {
  const { callsPerSecond, failedShare, p99, service } = lastMinute(samples);
  const percent = failedShare * 100;
  const tiles: readonly (readonly [name: string, text: string])[] = [
    ["Calls", `${numberText(callsPerSecond)} /s`],
    ["Failed", `${percent.toFixed(percent > 0 && percent < 10 ? 1 : 0)} %`],
    ["Highest p99", valueText(p99, msText)],
    ...(service
      ? ([
          ["In flight", countText(service.callsInFlight, "call")],
          ["Workers", String(service.workers)],
          ["Memory", `${service.memoryMib.toLocaleString("en")} MiB`],
        ] as const)
      : []),
  ];
  return (
    <dl class="tiles" aria-label="The last minute">
      {tiles.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
}

function Sums({ hour: { methods, environments } }: { readonly hour: Hour }) {
  const { env } = useSession();
  const link = (name: string, params: Params) => <a href={hrefOf("overview", { env, ...params })}>{name}</a>;
  return (
    <div class="charts sums">
      {methods.length > 0 && (
        <Section title="By method">
          <Table
            caption="Calls of the last hour by method"
            items={methods}
            keyOf={({ method }) => method}
            columns={[
              { name: "Method", isHeading: true, of: ({ method }) => link(method, { method }) },
              ...SUM_COLUMNS,
            ]}
          />
        </Section>
      )}
      {environments.length > 0 && (
        <Section title="By environment">
          <Table
            caption="Calls of the last hour by environment, except calls with ADMIN_TOKEN and calls of unknown callers"
            items={environments}
            keyOf={({ environment }) => (environment ? formatEnvironmentName(environment) : "")}
            columns={[
              {
                name: "Environment",
                isHeading: true,
                of: ({ environment }) => {
                  const name = environment && formatEnvironmentName(environment);
                  return name ? link(name, { of: name }) : "all others";
                },
              },
              ...SUM_COLUMNS,
            ]}
          />
        </Section>
      )}
    </div>
  );
}

type Sum = Pick<Hour["methods"][number], "calls" | "failedCalls" | "p99">;

const SUM_COLUMNS = [
  { name: "Calls", of: ({ calls }: Sum) => calls.toLocaleString("en") },
  { name: "Failed", of: ({ failedCalls }: Sum) => failedCalls.toLocaleString("en") },
  { name: "p99", of: ({ p99 }: Sum) => valueText(msOf(p99), msText) },
];
