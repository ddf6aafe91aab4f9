import { existsSync } from "node:fs";
import { appendFile, copyFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { newFolder, newProcess } from "@user-group-service/testing/opened";
import { startProcess } from "@user-group-service/testing/process";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { ADMIN_ENV } from "../../../test/support/admin.ts";
import { describeWithRedis, newProxy, newRedis, newServer, suiteServer } from "../../../test/support/opened.ts";
import { newTerminal } from "../../../test/support/terminal.ts";
import { bodyOf, callsOf, fileOf, GROUPS, hold, newPlace, type Place, stateOf } from "./support/place.ts";
import { linesIn, summaryOf, UGS } from "./support/ugs.ts";

/** The output after Ctrl-C. During a long run, `ugs` writes lines of progress before this output. */
const INTERRUPTED = /^(\w+ported .*\n)*run the same command again to continue\nugs: interrupted\n$/;

describe("a running ugs export", () => {
  const server = suiteServer({ env: ADMIN_ENV });

  it("the next run continues an export after SIGKILL; if the .part file is missing, the next run explains what to do", async () => {
    const { gate, folder, run, start } = await newPlace(server, GROUPS);
    const [file, whole] = [join(folder, "out.jsonl"), join(folder, "whole.jsonl")];
    expect((await run(["export", whole, "--include-tokens"])).code).toBe(0);
    gate.calls.length = 0;

    const held = hold(gate, "ExportUserGroups", 2);
    const killed = start(["export", file, "--include-tokens"]);
    await waitFor("the first page is stored", () => held.isReached() && stateOf(`${file}.export-state`)?.["groups"]);
    killed.signal("SIGKILL");
    expect(await killed.exited()).toBe(null);
    expect([existsSync(file), existsSync(`${file}.part`)]).toEqual([false, true]);
    // The state file does not count this line, so the next run must discard the line.
    await appendFile(`${file}.part`, '{"provided_id":"half');
    const left = join(folder, "left.export-state");
    await copyFile(`${file}.export-state`, left);
    held.letGo();
    gate.before = () => false;
    gate.calls.length = 0;

    expect(await run(["export", file, "--include-tokens"])).toMatchObject({ code: 0, stderr: "" });
    const requested = callsOf(gate, "ExportUserGroups").map(({ message }) => message["pageToken"]);
    expect(requested).toEqual([expect.stringMatching(/./)]);
    expect(await bodyOf(file)).toBe(await bodyOf(whole));
    expect([existsSync(`${file}.part`), existsSync(`${file}.export-state`)]).toEqual([false, false]);
    expect((await run(["import", file, "--verify"])).code).toBe(0);

    // An export cannot continue from a state file whose `.part` file is missing.
    await copyFile(left, `${file}.export-state`);
    const again = await run(["export", file, "--include-tokens", "--force"]);
    expect([again.code, again.stderr]).toEqual([
      2,
      expect.stringMatching(/out\.jsonl\.part.*does not exist\n {2}give --restart/),
    ]);
    expect((await run(["export", file, "--include-tokens", "--force", "--restart"])).code).toBe(0);
    expect(await bodyOf(file)).toBe(await bodyOf(whole));
  });

  it("stops at Ctrl-C, explains how to continue, and then continues after the exported pages", async () => {
    const { gate, folder, run } = await newPlace(server, GROUPS);
    const file = join(folder, "out.csv");
    const held = hold(gate, "ExportUserGroups", 2);
    const controller = new AbortController();
    const running = run(["export", file], { interrupt: controller.signal });
    await waitFor("the first page is stored", () => held.isReached() && stateOf(`${file}.export-state`)?.["groups"]);
    controller.abort();
    expect(await running).toEqual({
      code: 130,
      stdout: "",
      stderr: expect.stringMatching(INTERRUPTED),
    });
    held.letGo();
    const other = await run(["export", file, "--prefix", "group-1"]);
    expect([other.code, other.stderr]).toEqual([2, expect.stringMatching(/give --restart to start again\n/)]);
    expect((await run(["export", file])).code).toBe(0);
    expect((await run(["import", file, "--verify", "--json"])).code).toBe(0);
  });

  it("stops if a later export to the same file starts, and the later export completes", async () => {
    const { gate, folder, run } = await newPlace(server, GROUPS);
    const file = join(folder, "out.jsonl");
    const held = hold(gate, "ExportUserGroups", 1);
    const first = run(["export", file]);
    await waitFor("the first export sends a request", held.isReached);
    gate.before = () => false;
    expect((await run(["export", file])).code).toBe(0);
    const written = await bodyOf(file);
    held.letGo();
    const { code, stderr } = await first;
    expect([code, stderr]).toEqual([5, expect.stringMatching(/another run .*export-state\n/)]);
    expect(await bodyOf(file)).toBe(written);
    expect(linesIn(written)).toHaveLength(GROUPS.length);
    expect([existsSync(`${file}.part`), existsSync(`${file}.export-state`)]).toEqual([false, false]);
  });
});

describeWithRedis("ugs while the service's Redis is down", () => {
  it("retries until Redis is back, and completes the export or import", async () => {
    const redis = await newRedis();
    const proxy = await newProxy(redis);
    const server = await newServer({ redisUrl: proxy.url, env: { ...ADMIN_ENV, REDIS_TIMEOUT: "500ms" } });
    const { gate, folder, run } = await newPlace(server, GROUPS);
    const file = join(folder, "out.jsonl");
    /**
     * Stops Redis at the second call of an RPC, and starts Redis at the sixth call. Breaks the connection of the fifth
     * call.
     */
    const disturb = (name: string) => {
      gate.calls.length = 0;
      gate.before = ({ rpc, response }) => {
        const nth = rpc === name ? callsOf(gate, name).length : 0;
        if (nth === 2) proxy.allow(0);
        if (nth === 6) proxy.allow(Number.POSITIVE_INFINITY);
        if (nth !== 5) return false;
        response.destroy();
        return true;
      };
    };
    disturb("ExportUserGroups");
    expect(await run(["export", file])).toMatchObject({ code: 0 });
    expect(callsOf(gate, "ExportUserGroups").length).toBeGreaterThanOrEqual(6);
    disturb("ImportUserGroups");
    const imported = await run(["import", file, "--upsert", "--json"]);
    expect(summaryOf(imported)).toMatchObject({ unchanged: GROUPS.length, rejected: 0 });
    expect(callsOf(gate, "ImportUserGroups").length).toBeGreaterThanOrEqual(6);
    expect((await run(["import", file, "--verify"])).code).toBe(0);
  });
});

describe("a running ugs import", () => {
  const server = suiteServer({ env: ADMIN_ENV });

  it("stops at Ctrl-C, explains how to continue, and then continues after the imported groups", async () => {
    const { gate, folder, run } = await newPlace(server);
    const file = await fileOf(folder, [...GROUPS.slice(0, 3), { provided_id: 7 }, ...GROUPS.slice(3)]);
    const held = hold(gate, "ImportUserGroups", 2);
    const controller = new AbortController();
    const running = run(["import", file], { interrupt: controller.signal });
    await waitFor("the first request is stored", () => stateOf(`${file}.import-state`)?.["records"] === 500);
    controller.abort();
    expect(await running).toEqual({
      code: 130,
      stdout: "",
      stderr: expect.stringMatching(INTERRUPTED),
    });
    held.letGo();
    const again = await run(["import", file, "--json"]);
    expect(summaryOf(again)).toMatchObject({ resumed: 500, rejected: 1 });
    expect((await readFile(join(folder, "groups.rejects.jsonl"), "utf8")).match(/^#ugs line/gm)).toHaveLength(1);
    expect(existsSync(`${file}.import-state`)).toBe(false);
  });

  it("stops if a second import starts to read the same file, and the service creates each group once", async () => {
    const { gate, folder, run } = await newPlace(server);
    const file = await fileOf(folder, [{ provided_id: 7 }, ...GROUPS]);
    const held = hold(gate, "ImportUserGroups", 1);
    const first = run(["import", file]);
    await waitFor("the first import sends a request", () => callsOf(gate, "ImportUserGroups").length === 3);
    gate.before = () => false;
    const second = await run(["import", file, "--json"]);
    expect(summaryOf(second)).toMatchObject({ created: GROUPS.length, rejected: 1 });
    held.letGo();
    const { code, stderr } = await first;
    expect([code, stderr]).toEqual([5, expect.stringMatching(/another run .*import-state\n/)]);
    expect((await readFile(join(folder, "groups.rejects.jsonl"), "utf8")).match(/^#ugs line/gm)).toHaveLength(1);
    await writeFile(file, (await readFile(file, "utf8")).replace('{"provided_id":7}\n', ""));
    expect((await run(["import", file, "--verify"])).code).toBe(0);
  });

  it("an import shows its progress in one line of the terminal, and clears the line at the end", async () => {
    const { gate, env, folder } = await newPlace(server);
    const file = await fileOf(folder, GROUPS);
    gate.before = async ({ rpc }) => {
      if (rpc === "ImportUserGroups") await pause(250 * callsOf(gate, rpc).length);
    };
    const session = newTerminal(`${UGS} import ${file}`, { env: { ...env, XDG_CONFIG_HOME: folder } });
    expect(await session.exited()).toBe(0);
    const said = session.screen();
    expect(said).toMatch(/\rimported [\d,]+ groups, [\d,]+\/s, \d+ %/);
    expect(said).toMatch(/\r +\rimported into /);
    expect(said.split("\rimported into ")[0]).not.toContain("\n");
  });
});

describe("ugs on a full disk", () => {
  const server = suiteServer({ env: ADMIN_ENV });

  /** Runs shell lines on a disk of `kib` KiB. In a line, `ugs` runs the built program, and `more` enlarges the disk. */
  async function onDisk({ env, folder }: Place, kib: number, lines: readonly string[]): Promise<string[]> {
    const disk = newFolder();
    const script = [
      `mount -t tmpfs -o size=${kib}k tmpfs '${disk}' && cd '${disk}' || exit 99`,
      `ugs() { '${UGS}' "$@" 2>&1; echo "code $?"; }`,
      `more() { mount -o remount,size=8m '${disk}'; }`,
      ...lines.map((line) => `${line}\necho "end of line"`),
    ];
    const command = ["unshare", "--map-root-user", "--mount", "sh", "-c", script.join("\n")];
    const run = newProcess(startProcess(command, { env: { ...env, XDG_CONFIG_HOME: folder } }));
    expect([await run.exited(), run.output()]).toEqual([0, expect.any(String)]);
    return run.output().split("end of line\n");
  }

  it("reports the full disk, and resumes an export when the disk has space again", async () => {
    const place = await newPlace(server, GROUPS);
    const [full, , again, written = ""] = await onDisk(place, 112, [
      "ugs export out.jsonl",
      "more",
      "ugs export out.jsonl",
      "cat out.jsonl; ls",
    ]);
    expect(full).toMatch(/^ugs: cannot write out\.jsonl\.\S+: .*\(ENOSPC\)\n.*run the same/);
    expect(full).toContain("\ncode 2\n");
    expect(again).toBe(`exported 1,200 groups of ${place.environment} to out.jsonl\ncode 0\n`);
    const requested = callsOf(place.gate, "ExportUserGroups").map(({ message }) => Boolean(message["pageToken"]));
    expect(requested).toEqual([false, true, true]);
    const whole = join(place.folder, "whole.jsonl");
    expect((await place.run(["export", whole])).code).toBe(0);
    const [, ...groups] = linesIn(written);
    expect(groups).toEqual([...linesIn(await bodyOf(whole)), "out.jsonl"]);
  });

  it("reports the full disk, resumes an import when the disk has space again, and writes each rejected group once", async () => {
    const place = await newPlace(server);
    const file = await fileOf(
      place.folder,
      Array.from({ length: 1000 }, (_, i) => ({ provided_id: i, name: "is a number".padEnd(40) })),
    );
    const [, full, , again, rejects = ""] = await onDisk(place, 148, [
      `cp ${file} in.jsonl`,
      "ugs import in.jsonl",
      "more",
      "ugs import in.jsonl --json",
      "cat in.rejects.jsonl; ls",
    ]);
    expect(full).toMatch(/^ugs: cannot write in\.\S+: .*\(ENOSPC\)\n.*run the same/);
    expect(again).toMatch(/"rejected":1000,"resumed":500/);
    expect(rejects.match(/^\{"provided_id":\d+/gm)).toHaveLength(1000);
    expect(new Set(rejects.match(/^\{"provided_id":\d+/gm))).toHaveProperty("size", 1000);
    expect(rejects.split("\n").slice(-3)).toEqual(["in.jsonl", "in.rejects.jsonl", ""]);
  });

  it("keeps the existing profile if a new profile cannot be written", async () => {
    const place = await newPlace(server);
    const [kept, , full, after] = await onDisk(place, 64, [
      `export XDG_CONFIG_HOME=$PWD; umask 077; echo "$UGS_TOKEN" > token; unset UGS_TOKEN; ugs login --token-file token`,
      "yes > filler 2> filled",
      "ugs login --token-file token",
      "ugs whoami",
    ]);
    expect(kept).toContain("code 0");
    expect(full).toMatch(/ugs: cannot write .*: .*\(ENOSPC\)\n.*nothing was changed\ncode 2/);
    expect(after).toMatch(/role +root(.*\n)*code 0/);
  });
});
