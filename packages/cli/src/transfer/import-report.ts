import { countText } from "../../../operator/src/words.ts";
import { EXIT, Failure } from "../failures.ts";
import { jsonLine } from "../output/printable.ts";
import type { Session } from "../session.ts";
import type { Done } from "./importer.ts";
import { count } from "./progress.ts";
import type { RejectsFile } from "./rejects.ts";
import type { Fate } from "./sender.ts";
import type { Target } from "./target.ts";

/**
 * The number of groups for each outcome. If `--verify` is set, `onlyHere` is the number of groups that exist only in
 * the service.
 */
export type Counts = { [fate in Fate]: number } & { onlyHere?: number };

export const NO_COUNTS: Counts = { created: 0, updated: 0, unchanged: 0, tokenNewer: 0, suspended: 0, rejected: 0 };

const REASONS_SHOWN = 20;

interface ReportFlags {
  readonly dryRun?: boolean;
  readonly verify?: boolean;
}

/** Returns functions that report single groups. @param hasFile whether a file contains all rejected groups */
export function groupReport({ out }: Session, { dryRun, verify }: ReportFlags, hasFile: boolean) {
  let noted = 0;
  const note = (text: string) => {
    if (noted === REASONS_SHOWN) return;
    noted += 1;
    out.note(text);
    if (noted === REASONS_SHOWN) out.note("further groups are not shown; --json shows all");
  };
  return {
    async add({ record, result }: Done): Promise<void> {
      const { fate, changedFields, reason } = result;
      const providedId = record.group?.providedId;
      const isReported = verify ? fate !== "unchanged" : dryRun;
      if (out.isJson && isReported)
        await out.line(jsonLine({ line: record.line, providedId, result: fate, changedFields, reason }));
      if (out.isJson || !((fate === "rejected" && !hasFile) || (verify && isReported))) return;
      const what = reason ?? (fate === "created" ? "is missing in the service" : `differs: ${differing(result)}`);
      const where = providedId === undefined ? `line ${record.line}` : JSON.stringify(providedId);
      note(`${where}: ${what}`);
    },

    async onlyHere(providedId: string): Promise<void> {
      if (out.isJson) await out.line(jsonLine({ providedId, result: "onlyHere" }));
      else note(`${JSON.stringify(providedId)}: is only in the service`);
    },
  };
}

/** The differences that an import does not remove. The key is the result of the import for the group. */
const KEPT: { readonly [fate in Fate]?: string } = {
  tokenNewer: "token (newer in the service)",
  suspended: "suspended in the service",
};

function differing({ fate, changedFields }: Done["result"]): string {
  return [...changedFields, ...(KEPT[fate] ? [KEPT[fate]] : [])].join(", ");
}

const WORDS: { readonly [fate in keyof Counts]-?: readonly [done: string, would: string, verified: string] } = {
  created: ["created", "would be created", "missing in the service"],
  updated: ["updated", "would be updated", "different"],
  unchanged: ["unchanged", "would stay unchanged", "equal"],
  tokenNewer: ["kept a newer token", "would keep a newer token", "with a newer token in the service"],
  suspended: ["stayed SUSPENDED", "would stay SUSPENDED", "SUSPENDED in the service"],
  rejected: ["rejected", "would be rejected", "that cannot be imported"],
  onlyHere: ["", "", "only in the service"],
};

/** Reports the result. @throws Failure if groups were rejected, or if the input and the service differ */
export async function report(
  { out }: Session,
  given: {
    readonly counts: Counts;
    readonly resumed: number;
    readonly flags: ReportFlags;
    readonly target: Target;
    readonly rejects: RejectsFile | undefined;
    /** The path of the input, if the file changed during the import. */
    readonly changed: string | undefined;
  },
): Promise<void> {
  const { counts, resumed, flags, target, rejects, changed } = given;
  const column = flags.verify ? 2 : flags.dryRun ? 1 : 0;
  const hasRejects = counts.rejected > 0 && rejects !== undefined;
  if (out.isJson) {
    const facts = { ...counts, resumed, environment: target.name };
    await out.line(jsonLine({ summary: { ...facts, ...(hasRejects && { rejects: rejects.path }) } }));
  } else {
    const rows = (Object.keys(counts) as (keyof Counts)[]).map(
      (fate) => [count(counts[fate] ?? 0), WORDS[fate][column]] as const,
    );
    const width = Math.max(...rows.map(([number]) => number.length));
    const title = ["imported into", "dry run against", "compared with"][column];
    await out.line(`${title} ${target.name}${resumed > 0 ? `, ${countText(resumed, "group")} by an earlier run` : ""}`);
    for (const [number, words] of rows) await out.line(`${number.padStart(width)}  ${words}`);
    if (hasRejects)
      await out.line(`${rejects.path} has the rejected groups and the reasons: correct this file and import it`);
    if ((Object.keys(NO_COUNTS) as Fate[]).every((fate) => counts[fate] === 0))
      out.note("warning: the input has no groups");
  }
  if (changed !== undefined)
    throw new Failure(`${changed} changed during the import`, {
      exitCode: EXIT.incomplete,
      hint: "run the same command again when no program writes to the file; groups that are already imported stay unchanged",
    });
  if (flags.verify) {
    const differ = Object.values(counts).reduce((sum, number) => sum + number, 0) - counts.unchanged;
    if (differ > 0)
      throw new Failure(`the input and the service differ in ${countText(differ, "group")}`, {
        exitCode: EXIT.incomplete,
      });
  } else if (counts.rejected > 0) {
    const text = flags.dryRun
      ? `${countText(counts.rejected, "group")} would be rejected`
      : rejectedText(counts.rejected);
    throw new Failure(text, { exitCode: EXIT.incomplete });
  }
}

/** Formats a number of rejected groups, such as `1 group was rejected`. */
export function rejectedText(rejected: number): string {
  return `${countText(rejected, "group")} ${rejected === 1 ? "was" : "were"} rejected`;
}
