import { quartiles, table } from "../report.ts";
import { isService } from "../rows.ts";
import { lowerQuartile, type Summary, summarise } from "../statistics.ts";
import type { Turn } from "../turns.ts";
import type { Results } from "./benchmark.ts";
import { cpuMicros, type Measured, titles, turnsOf } from "./tables.ts";

/** Key of the control row. The control is the same program as the first row, so a difference between them is noise. */
export const CONTROL = "again";

/** Results count only if the control differs from the first row by at most this share. */
const MAX_CHANCE = 0.015;

/** Whether a row uses more or less CPU per call than the first row. `chance` means that the difference is noise. */
type Difference = "more" | "less" | "chance";

/**
 * Returns a table that compares the CPU per call of each row with the first row. Each cell contains the median ratio
 * over all rounds.
 */
export function differences({ rows, results }: Measured): string {
  const kinds = titles(results);
  const of = (row: string) => kinds.map(([call]) => summarise(roundRatios(results, row, call)));
  const chance = of(CONTROL);
  const isQuiet = chance.every(({ median }) => Math.abs(median - 1) <= MAX_CHANCE);
  const lines = rows.map((row) => {
    if (isService(row)) {
      const own = kinds.map(([call]) => summarise(turnsOf(results, row.key, call).map(cpuMicros)));
      return [row.title, ...own.map((summary) => `${quartiles(summary, 1)} µs`), ""];
    }
    const summaries = of(row.key);
    const found = summaries.map((summary, i) => differenceOf(summary, chance[i]));
    return [row.title, ...summaries.map(percentQuartiles), isQuiet && row.key !== CONTROL ? verdictOf(found) : ""];
  });
  const columns = kinds.map(([, title]) => `>${title}: CPU`);
  const text = table(["commit", ...columns, ""], lines);
  if (isQuiet) return text;
  const most = `${100 * MAX_CHANCE} %`;
  return `${text}\n\n**No conclusion: the control differs from the first server by more than ${most}.**`;
}

function verdictOf(found: readonly Difference[]): string {
  const words = (["more", "less"] as const).filter((word) => found.includes(word));
  return words.length === 0 ? "no difference beyond noise" : `costs ${words.join(" and ")}`;
}

/**
 * Returns `more` if at least three quarters of the rounds are above the interquartile range of the control, and `less`
 * if at least three quarters are below this range. Otherwise, returns `chance`.
 */
function differenceOf({ median, low, high }: Summary, chance: Summary | undefined): Difference {
  if (!chance) throw new Error("there is no control");
  if (median > 1 && low > chance.high) return "more";
  return median < 1 && high < chance.low ? "less" : "chance";
}

/** Returns the ratio of each round: the CPU per call of the row, divided by the CPU per call of the first row. */
function roundRatios(results: Results, row: string, call: string): number[] {
  const turns = turnsOf(results, row, call);
  const base = turnsOf(results, "service", call);
  return [...new Set(turns.map(({ round }) => round))].map((round) => {
    const least = (of: readonly Turn[]) => lowerQuartile(of.filter((turn) => turn.round === round).map(cpuMicros));
    return least(turns) / least(base);
  });
}

function percentQuartiles({ median, low, high }: Summary): string {
  if (Number.isNaN(median)) return "";
  const percent = (ratio: number) => `${ratio < 1 ? "−" : "+"}${Math.abs(100 * (ratio - 1)).toFixed(1)}`;
  return `${percent(median)} % (${percent(low)} to ${percent(high)})`;
}
