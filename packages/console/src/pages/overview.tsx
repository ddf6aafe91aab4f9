import type { Figures, Quantile, Work } from "../metrics/figures.ts";
import { INTERVAL_MS, useFigures } from "../metrics/use-figures.ts";
import { CommandLine } from "../parts/command.tsx";
import { FailureBox } from "../parts/failure.tsx";
import { Page, Section } from "../parts/page.tsx";
import { type Column, Facts, Table } from "../parts/table.tsx";
import { countText } from "../words.ts";

/** Current rates and states of the service, computed from its metrics. */
export function OverviewPage() {
  const { value, isPaused, error } = useFigures();
  const figures = value?.figures;
  return (
    <Page title="Overview">
      <p class="small">
        {isPaused
          ? "Paused while the page is hidden."
          : `The last minute of the process that answers /metrics, with its workers, updated every ${INTERVAL_MS / 1000} seconds. Use a monitoring system for several processes and for history.`}
      </p>
      <FailureBox error={error} />
      {value?.isOther && (
        <p class="note">
          Another process answers now: the service restarted, or several processes share this address. The measurement
          starts again.
        </p>
      )}
      {!figures && error === undefined && <p>Measuring. The figures appear after the second reading.</p>}
      {figures && <Shown figures={figures} />}
      <CommandLine command="ping" />
    </Page>
  );
}

function Shown({ figures }: { readonly figures: Figures }) {
  const { all, methods, errors, redis } = figures;
  const share = all.count === 0 ? 0 : (all.failed / all.count) * 100;
  return (
    <>
      <Facts
        facts={[
          ["Measured over", `${Math.round(figures.seconds)} s`],
          ["Calls", `${rateText(all.perSecond)} a second`],
          ["Failed", `${countText(all.failed, "call")}, ${share.toFixed(share < 10 ? 1 : 0)} %`],
          ["p99 latency", quantileText(all.p99)],
          ["In flight", countText(figures.inFlight, "call")],
          ["Refused by a limit", countText(figures.limited, "call")],
          ["Redis, or the embedded store", redisText(figures.isRedisReady)],
          ["Workers", `${figures.workers}; ${figures.workerExits} exited since the service started`],
          ["Memory", `${Math.round(figures.memoryBytes / 2 ** 20).toLocaleString("en")} MiB`],
        ]}
      />
      <Section title="Calls by method">
        <WorkTable caption="Calls of the last minute" noun="Method" works={methods} />
      </Section>
      <Section title="Errors by code">
        {errors.length === 0 ? (
          <p>No call failed.</p>
        ) : (
          <Table
            caption="Failed calls of the last minute"
            items={errors}
            keyOf={({ method, code }) => `${method} ${code}`}
            columns={[
              { name: "Code", isHeading: true, of: ({ code }) => code },
              { name: "Method", of: ({ method }) => method },
              {
                name: "Calls",
                of: ({ count }) => <Bar text={String(count)} share={count / (errors[0]?.count ?? count)} />,
              },
            ]}
          />
        )}
      </Section>
      <Section title="Redis by operation">
        <WorkTable caption="Round trips of the last minute" noun="Operation" works={redis} />
      </Section>
    </>
  );
}

function WorkTable({
  caption,
  noun,
  works,
}: {
  readonly caption: string;
  readonly noun: string;
  readonly works: readonly Work[];
}) {
  if (works.length === 0) return <p>None.</p>;
  const most = Math.max(...works.map(({ perSecond }) => perSecond));
  const longest = Math.max(...works.map(({ p99 }) => p99?.seconds ?? 0));
  const columns: readonly Column<Work>[] = [
    { name: noun, isHeading: true, of: ({ name }) => name },
    {
      name: "A second",
      of: ({ perSecond }) => <Bar text={rateText(perSecond)} share={perSecond / most} />,
    },
    { name: "Failed", of: ({ failed }) => failed.toLocaleString("en") },
    {
      name: "p99",
      of: ({ p99 }) => <Bar text={quantileText(p99)} share={longest === 0 ? 0 : (p99?.seconds ?? 0) / longest} />,
    },
  ];
  return <Table caption={caption} items={works} keyOf={({ name }) => name} columns={columns} />;
}

/** A figure with a bar, which shows the same. @param share of the longest bar */
function Bar({ text, share }: { readonly text: string; readonly share: number }) {
  return (
    <span class="figure">
      <span>{text}</span>
      <svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
        <rect width={Math.max(1, share * 100)} height="10" />
      </svg>
    </span>
  );
}

function rateText(perSecond: number): string {
  return perSecond.toLocaleString("en", { maximumFractionDigits: perSecond < 10 ? 2 : 0 });
}

function quantileText(quantile: Quantile | undefined): string {
  if (!quantile) return "–";
  const ms = (quantile.seconds * 1000).toLocaleString("en", { maximumSignificantDigits: 3 });
  return `${quantile.isMore ? "more than " : ""}${ms} ms`;
}

function redisText(isReady: boolean | undefined): string {
  if (isReady === undefined) return "unknown";
  return isReady ? "connected" : "a node is not connected";
}
