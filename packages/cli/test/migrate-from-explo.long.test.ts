import { mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { blocksOf, sectionsOf, textOf } from "@user-group-service/testing/documents";
import { newFolder } from "@user-group-service/testing/opened";
import { descendants, ROOT } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ADMIN_ENV, ADMIN_TOKEN } from "../../../test/support/admin.ts";
import { newServer } from "../../../test/support/opened.ts";
import { newTerminal } from "../../../test/support/terminal.ts";
import { customer, newHosted } from "./support/hosted.ts";

const DOCUMENT = "docs/migrate-from-explo.md";
const COUNT = 40;

/** The new output on the terminal, and the exit code of the last command. */
interface Said {
  readonly text: string;
  readonly code: number;
}

/** Starts bash on a terminal in an empty folder. The PATH of this shell contains `ugs`. */
async function openBash() {
  const [folder, bin] = [newFolder(), newFolder()];
  symlinkSync(`${ROOT}/dist/ugs.js`, join(bin, "ugs"));
  mkdirSync(join(bin, "profiles"));
  const PATH = `${bin}:${process.env["PATH"] ?? ""}`;
  const env = { PATH, PS1: "ready $? > ", XDG_CONFIG_HOME: join(bin, "profiles") };
  const bash = newTerminal("bash --norc --noprofile", { env, cwd: folder });
  const ready = (from: number) => /ready (\d+) > $/.exec(bash.screen().slice(from));
  await waitFor("bash is ready", () => ready(0));
  const processes = descendants(bash.pid).length;
  return {
    folder,
    screen: bash.screen,
    /** Types a line, and answers each question. */
    async type(line: string, ...answers: readonly (readonly [question: string, keys: string])[]): Promise<Said> {
      const from = bash.screen().length;
      bash.type(`${line}\n`);
      for (const [question, keys] of answers) {
        await waitFor(`a prompt of: ${line}`, () =>
          bash
            .screen()
            .slice(from + line.length)
            .includes(question),
        );
        // If the keys arrive before the command owns the terminal, bash reads the keys.
        await waitFor(`the start of: ${line}`, () => descendants(bash.pid).length > processes);
        bash.type(keys);
      }
      const [, code] = await waitFor(`the exit of: ${line}`, () => {
        // The terminal echoes the line before the output.
        return bash.screen().length > from + line.length ? ready(from + line.length) : null;
      });
      return { text: bash.screen().slice(from), code: Number(code) };
    },
  };
}

it("the documented migration from the hosted service works, in both directions", async () => {
  const server = await newServer({ env: ADMIN_ENV });
  const hosted = await newHosted(COUNT);
  const inherited = { properties: { own: 1 }, computed_properties: { own: 1, inherited: 2 } };
  hosted.customers[7] = customer(7, inherited);
  const bash = await openBash();
  /** Replaces the example values of a documented line with the values of this test. */
  const here = (line: string) =>
    line
      .replace("https://groups.example.com", server.url)
      .replace("--from-explo ", `--from-explo --explo-url ${hosted.url} `);
  /** Types the lines of a documented section. Returns the output of each line. */
  async function walk(section: string, answers: { readonly [line: string]: readonly [string, string] }) {
    const lines = blocksOf(DOCUMENT, section).flatMap(({ code }) => code.trimEnd().split("\n"));
    const said: { [line: string]: Said } = {};
    for (const line of lines) {
      const [, answer] = Object.entries(answers).find(([begin]) => line.startsWith(begin)) ?? [];
      const key = line.replace(/^ugs import .*token /, "ugs import ");
      said[key] = await bash.type(here(line), ...(answer ? [answer] : []));
    }
    return said;
  }
  /** Requests a group through the REST API `/api/user`, as a back end does. */
  async function ask(base: string, header: string, id: string): Promise<unknown> {
    const token = readFileSync(join(bash.folder, "back-ends.token"), "utf8").trim();
    const url = `${base}/api/user?user_group_id=${encodeURIComponent(id)}`;
    const response = await fetch(url, { headers: { [header]: `Token ${token}` } });
    return response.json();
  }

  const names = sectionsOf(DOCUMENT).map((name) => name.replace(/, \d+ minutes$/, ""));
  expect(names).toEqual(["Prepare", "Import", "Compare", "Switch", "The way back"]);
  const [prepare = "", load = "", compare = "", , back = ""] = sectionsOf(DOCUMENT);

  const prepared = await walk(prepare, {
    "ugs login": ["(not shown): ", `${ADMIN_TOKEN}\r`],
    "cat >": ["\n", `${hosted.token}\n\u0004`],
  });
  for (const [line, { code, text }] of Object.entries(prepared)) expect([line, code, text]).toEqual([line, 0, text]);
  expect(prepared["ugs import --upsert --dry-run"]?.text).toMatch(
    /dry run against acme\/Customer\n *40 {2}would be created\n/,
  );

  const first = await walk(load, {});
  expect(first["ugs import --upsert"]).toMatchObject({ code: 0, text: expect.stringMatching(/\n40 {2}created\n/) });
  expect(first["ugs import --upsert"]?.text).toContain("the values of parent customers are copied to 1 group");

  const compared = await walk(compare, { "ugs viewer resolve": ["(not shown): ", `${customer(3).token}\r`] });
  expect(compared["ugs import --verify"]).toMatchObject({ code: 0, text: expect.stringMatching(/\n40 {2}equal\n/) });
  expect(compared["ugs viewer resolve"]).toMatchObject({ code: 0, text: expect.stringMatching(/group +customer-3\n/) });

  // A second import updates the groups that changed after the first import.
  hosted.customers[5] = customer(5, { name: "Renamed" });
  expect((await walk(load, {}))["ugs import --upsert"]?.text).toMatch(/ 1 {2}updated\n39 {2}unchanged\n/);
  expect((await bash.type(here("ugs import --from-explo --explo-token-file explo.token --verify"))).code).toBe(0);
  for (const header of ["authorization", "explo-authorization"])
    expect(await ask(server.url, header, "customer-3")).toMatchObject({ user_group: { token: customer(3).token } });
  await ask(server.url, "authorization", "made here");

  const returned = await walk(back, {});
  expect(returned["ugs import --verify --json > differences.jsonl"]?.code).toBe(7);
  const others = Object.entries(returned).filter(([line]) => !line.startsWith("ugs import"));
  expect(others.length).toBeGreaterThan(0);
  for (const [line, { code, text }] of others) expect([line, code, text]).toEqual([line, 0, text]);
  const differences = readFileSync(join(bash.folder, "differences.jsonl"), "utf8");
  expect(differences).toContain('{"providedId":"made here","result":"onlyHere"}');
  expect(readdirSync(bash.folder)).toEqual(["differences.jsonl"]);
  const [id] = /^\S+(?= +import )/m.exec(returned["ugs token list --env acme/Customer"]?.text ?? "") ?? [];
  const ending = /`(ugs token revoke ID .*)`/.exec(textOf(DOCUMENT))?.[1] ?? "";
  const revoked = await bash.type(ending.replace("ID", id ?? ""), ["To continue, type", `${id}\r`]);
  expect([revoked.code, revoked.text]).toEqual([0, expect.stringContaining("Revoked 1 API token.")]);
  for (const secret of [ADMIN_TOKEN, customer(3).token]) expect(bash.screen()).not.toContain(secret);
});
