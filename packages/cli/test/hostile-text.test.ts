import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { describe, expect, it } from "vitest";
import { sharedServer } from "../../../test/support/opened.ts";
import { newTerminal } from "../../../test/support/terminal.ts";
import { printable } from "../src/output/printable.ts";
import { linesIn, type RunOptions, UGS, ugs, usersOf } from "./support/ugs.ts";

const HOSTILE = "a\u001b]0;x\u0007\r\n\t\u009b31m\u202e\u200b\u200d\u2060\u00ad\ufe0f\u{e0041}\u2028b";

/** The characters that must not reach a terminal: all unsafe characters except line breaks. */
const RAW = /[^\n\P{Cc}]|[\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u;

/** Removes the carriage returns of progress lines. Keeps the carriage return in `HOSTILE`, because `\n` follows. */
const withoutProgress = (text: string) => text.replaceAll(/\r(?!\n)/g, "");

const GROUPS = "groups.jsonl";

describe("texts that a terminal would execute or hide", () => {
  const server = sharedServer();

  /** Creates an environment with a group whose texts are hostile, and a folder with `groups.jsonl`. */
  async function newPlace() {
    const folder = newFolder();
    const { token } = await usersOf(server).newEnvironment();
    const env = { UGS_URL: server.url, UGS_TOKEN: token, NO_COLOR: "1" };
    const run = (args: readonly string[], options: RunOptions = {}) =>
      ugs(
        args.map((arg) => (arg === GROUPS ? join(folder, GROUPS) : arg)),
        { ...options, env },
      );
    const mapping = { [HOSTILE]: HOSTILE };
    const group = { provided_id: "one", name: HOSTILE, mapping, properties: mapping };
    writeFileSync(join(folder, GROUPS), `${JSON.stringify(group)}\n`);
    expect(await run(["import", GROUPS])).toMatchObject({ code: 0 });
    return { folder, env, run };
  }

  const COMMANDS: readonly (readonly string[])[] = [
    ["group", "list"],
    ["group", "get", "one"],
    ["group", "get", HOSTILE],
    ["group", "update", "one", "--name", HOSTILE],
    ["token", "list"],
    ["token", "create", "--name", HOSTILE, "--role", "read"],
    ["audit"],
    ["export"],
    ["export", "-", "--format", "csv"],
    ["import", GROUPS, "--verify"],
    ["import", HOSTILE],
    ["profile", "use", HOSTILE],
    ["env", "get", HOSTILE],
    ["login", "--url", HOSTILE],
    [HOSTILE],
    ["whoami", "--token-file", HOSTILE],
    ["complete", "--", ""],
  ];

  const TITLED = COMMANDS.flatMap((args) => [args, [...args, "--json"]]).map(
    (args) => [printable(args.join(" ")), args] as const,
  );

  it.each(TITLED)("a hostile text is escaped by ugs %s on a terminal", async (_, args) => {
    const { run } = await newPlace();
    const { stdout, stderr } = await run(args, { columns: 80, keys: "" });
    expect(stdout).not.toMatch(RAW);
    expect(withoutProgress(stderr)).not.toMatch(RAW);
    expect(stdout + stderr).not.toBe("");
  });

  it("a hostile text is exported unchanged to a pipe and to a file", async () => {
    const { run, folder } = await newPlace();
    const [jsonl, csv] = [await run(["export"]), await run(["export", "--format", "csv"])];
    const [, line = ""] = linesIn(jsonl.stdout);
    expect(JSON.parse(line)).toMatchObject({ name: HOSTILE, properties: { [HOSTILE]: HOSTILE } });
    expect(line).toContain("\u009b31m\u202e\u200b");
    expect(csv.stdout).toContain(`one,"${HOSTILE}",`);
    const file = join(folder, "export.csv");
    expect(await run(["export", file], { columns: 80 })).toMatchObject({ code: 0 });
    expect(readFileSync(file, "utf8")).toContain(`one,"${HOSTILE}",`);
  });

  it("a hostile text is escaped by the built ugs on a pseudo-terminal", async () => {
    const { env } = await newPlace();
    const session = newTerminal(`${UGS} export - --format csv`, { env: { ...env, XDG_CONFIG_HOME: newFolder() } });
    expect(await session.exited()).toBe(0);
    expect(withoutProgress(session.screen())).not.toMatch(RAW);
    expect(session.screen()).toContain("\\u202e\\u200b");
  });
});
