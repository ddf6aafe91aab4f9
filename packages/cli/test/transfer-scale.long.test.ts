import { once } from "node:events";
import { createWriteStream, existsSync, readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { newFolder } from "@user-group-service/testing/opened";
import type { RunningProcess } from "@user-group-service/testing/process";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { expect, it } from "vitest";
import { ADMIN_ENV, adminOf } from "../../../test/support/admin.ts";
import { describeWithRedis, newRedis, newServer } from "../../../test/support/opened.ts";
import { newGate } from "./support/gate.ts";
import { asRoot, linesIn, startUgs } from "./support/ugs.ts";

/** The number of groups. Set `TRANSFER_GROUPS=100000` to test a large migration. */
const COUNT = Number(process.env["TRANSFER_GROUPS"] ?? 10_000);
/** The number of times that the test kills the import. */
const KILLS = 5;

const GROUPS_A_REQUEST = 500;

/** The maximum peak memory of a transfer, in MiB. The same maximum applies to any number of groups. */
const MAX_RSS_MIB = 250;

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly seconds: number;
  /** The peak memory, in MiB. */
  readonly rssMib: number;
}

/** Runs the built `ugs`. @param onStart receives the process, and may kill it */
async function run(args: readonly string[], url: string, onStart = (_: RunningProcess) => {}): Promise<Ended> {
  const begun = performance.now();
  const child = startUgs(args, asRoot({ url }));
  let rssMib = 0;
  const timer = setInterval(() => {
    const [, kib = "0"] = /VmHWM:\s+(\d+)/.exec(statusOf(child.pid)) ?? [];
    rssMib = Math.max(rssMib, Number(kib) / 1024);
  }, 50);
  onStart(child);
  const code = await child.exited();
  clearInterval(timer);
  expect(child.output()).not.toMatch(/rror/);
  return { code, output: child.output(), seconds: (performance.now() - begun) / 1000, rssMib };
}

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, "utf8");
  } catch {
    return "";
  }
}

/** Returns the number of processed groups from the state file of an import. */
function recordsOf(state: string): number {
  return existsSync(state) ? (JSON.parse(readFileSync(state, "utf8")) as { records: number }).records : 0;
}

describeWithRedis("import and export of many groups", () => {
  it("all groups are imported although the import is killed several times, and exports contain the same groups", {
    timeout: 1_200_000,
  }, async () => {
    const redis = await newRedis();
    const server = await newServer({ redisUrl: redis.url, env: ADMIN_ENV });
    const folder = newFolder();
    const file = join(folder, "groups.jsonl");
    const stream = createWriteStream(file);
    stream.write('{"snapshot_time":"2026-01-31T08:00:00Z"}\n');
    for (let i = 0; i < COUNT; i++) {
      const properties = { region: `r${i % 17}`, plan: "x".repeat(i % 50), seats: i };
      const token = `hosted${i.toString(16).padStart(58, "0")}`;
      const group = { provided_id: `group-${i}`, name: `Group ${i}`, mapping: { "40": `${i}` }, properties, token };
      if (!stream.write(`${JSON.stringify(group)}\n`)) await once(stream, "drain");
    }
    stream.end();
    await finished(stream);
    for (const name of ["killed", "whole"]) await adminOf(server.url).createEnvironment({ environment: { name } });

    const state = `${file}.import-state`;
    const gate = await newGate(server);
    let killed = 0;
    for (let i = 1; i <= KILLS; i++) {
      const part = (COUNT * i) / (KILLS + 2);
      // After `part` groups, the gate delays each request, so the test can kill the import before the import ends.
      let sent = recordsOf(state);
      gate.before = async ({ rpc }) => {
        if (rpc !== "ImportUserGroups") return;
        sent += GROUPS_A_REQUEST;
        if (sent > part) await pause(300);
      };
      const ended = await run(["import", file, "--env", "killed"], gate.url, (child) => {
        // Kill each run after the run has processed more groups than the earlier runs.
        void waitFor(`the import is at part ${i}`, () => recordsOf(state) >= part).then(() => child.signal("SIGKILL"));
      });
      if (ended.code === null) killed += 1;
    }
    expect(killed).toBe(KILLS);
    const records = recordsOf(state);
    gate.before = () => false;
    const resumed = await run(["import", file, "--env", "killed", "--json"], gate.url);
    expect(resumed.code).toBe(0);
    const { summary } = JSON.parse(linesIn(resumed.output).at(-1) ?? "") as { summary: { [name: string]: number } };
    expect(summary).toMatchObject({ updated: 0, tokenNewer: 0, rejected: 0, resumed: records });
    // If a request was in flight when the test killed the import, the next run sends the request again. The groups of
    // this request may count as unchanged.
    expect((summary["created"] ?? 0) + (summary["unchanged"] ?? 0)).toBe(COUNT);
    expect(records).toBeGreaterThanOrEqual((COUNT * KILLS) / (KILLS + 2));
    expect(existsSync(state)).toBe(false);

    const whole = await run(["import", file, "--env", "whole"], server.url);
    const verify = await run(["import", file, "--env", "killed", "--verify", "--json"], server.url);
    expect([whole.code, verify.code]).toEqual([0, 0]);
    const [one, other] = [join(folder, "one.jsonl"), join(folder, "other.csv")];
    const exported = await run(["export", one, "--env", "killed", "--include-tokens"], server.url);
    await run(["export", other, "--env", "whole", "--include-tokens"], server.url);
    expect(exported.code).toBe(0);
    // Compares the file that was exported from one environment with the groups of the other environment.
    const back = await run(["import", other, "--env", "killed", "--verify", "--json"], server.url);
    expect([back.code, back.output]).toEqual([0, expect.stringContaining(`"unchanged":${COUNT}`)]);
    const bodyOf = async (path: string) => (await readFile(path, "utf8")).split("\n").slice(1).sort();
    expect(await bodyOf(one)).toEqual(await bodyOf(file));

    const runs = { resumed, import: whole, verify, export: exported, "verify of CSV": back };
    for (const [name, { seconds, rssMib }] of Object.entries(runs)) {
      console.log(`${name}: ${COUNT} groups, ${Math.round(COUNT / seconds)}/s, peak memory ${Math.round(rssMib)} MiB`);
      expect(rssMib).toBeLessThan(MAX_RSS_MIB);
    }
  });
});
