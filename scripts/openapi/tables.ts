/** An error reason, from the table of errors in docs/api.md. */
export interface Reason {
  readonly code: string;
  readonly reason: string;
  readonly status: number;
  /** The status over Connect. */
  readonly connectStatus: number;
  readonly advice: string;
}

/** The tables of docs/api.md. Tests compare these tables with the code. */
export interface Tables {
  /**
   * Maps a method, such as `usergroup.v1.UserGroupService/GetUserGroup`, to the role that the method requires, or to
   * `open` or `any`.
   */
  readonly access: ReadonlyMap<string, string>;
  readonly reasons: readonly Reason[];
}

/** @param text the content of docs/api.md @throws Error if a table is missing */
export function readTables(text: string): Tables {
  const access = new Map(
    rowsOf(text, "Endpoints").flatMap(([method = "", role]) =>
      role && /^[\w.]+\/\w+$/.test(method) ? [[method, role]] : [],
    ),
  );
  const reasons = rowsOf(text, "Errors").flatMap(([code = "", reason = "", http = "", advice = ""]) => {
    const status = Number(/^\d{3}/.exec(http)?.[0]);
    const connectStatus = Number(/(\d{3}) over Connect/.exec(http)?.[1] ?? status);
    return status ? [{ code, reason, status, connectStatus, advice }] : [];
  });
  if (access.size === 0 || reasons.length === 0)
    throw new Error("docs/api.md has no table of methods under Endpoints, or no table of errors under Errors");
  return { access, reasons };
}

/** Returns the rows of all tables of a section. Removes code and emphasis marks, except in the last cell. */
function rowsOf(text: string, section: string): string[][] {
  const start = text.indexOf(`\n## ${section}\n`);
  const end = text.indexOf("\n## ", start + 1);
  return (start < 0 ? "" : text.slice(start, end < 0 ? undefined : end))
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .map((line) =>
      line
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    )
    .map((cells) => cells.map((cell, i) => (i < cells.length - 1 ? cell.replace(/^[`*]+|[`*]+$/g, "") : cell)));
}
