import { existsSync, readdirSync } from "node:fs";
import { appendFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { adminOf } from "../../../test/support/admin.ts";
import { sharedServer } from "../../../test/support/opened.ts";
import { refuseRate } from "./support/gate.ts";
import { callsOf, fileOf, GROUPS, hold, newPlace } from "./support/place.ts";
import { jsonLinesIn, linesIn } from "./support/ugs.ts";

describe("ugs import", () => {
  const server = sharedServer();

  it("imports only the groups that a file has at the start, and reports that the file changed during the import", async () => {
    const { gate, folder, run, counts } = await newPlace(server);
    const file = await fileOf(folder, GROUPS.slice(0, 20));
    const held = hold(gate, "ImportUserGroups", 1);
    const running = run(["import", file]);
    await waitFor("the import sends a request", held.isReached);
    await appendFile(file, '{"provided_id":"late"}\n{"provided_id":"hal');
    held.letGo();
    const { code, stdout, stderr } = await running;
    expect([code, stdout]).toEqual([7, expect.stringMatching(/20 {2}created(.*\n)* +0 {2}rejected\n/)]);
    expect(stderr).toMatch(/groups\.jsonl changed during the import\n {2}run the same command again/);
    await appendFile(file, 'f"}\n');
    expect(await counts(["import", file])).toMatchObject({ created: 2, unchanged: 20, resumed: 0 });
  });

  it.each([
    ["x.json", '[{"provided_id":"a"}]', /is a JSON array, not JSON Lines\n {2}.*jq -c/],
    ["x.csv.gz", gzipSync("provided_id\na\n"), /is compressed\n.*gunzip -c FILE \| ugs import -/],
    [
      "x.csv",
      Buffer.from("\ufeffprovided_id\na\n", "utf16le"),
      /line 1 of the CSV input is not UTF-8\n {2}save the file as UTF-8/,
    ],
    ["x.csv", "provided_id,name,name\na,b,c\n", /the column name twice/],
  ])("explains what to do if the input %s contains %j", async (name, content, words) => {
    const { folder, run } = await newPlace(server);
    await writeFile(join(folder, name), content);
    const { code, stderr } = await run(["import", join(folder, name)]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(words)]);
    expect(readdirSync(folder)).toEqual([name]);
  });

  it("reads CSV with columns in any order and Windows line ends, and ignores unknown columns with --ignore-unknown", async () => {
    const { folder, run } = await newPlace(server);
    const file = join(folder, "export.csv");
    await writeFile(file, '\ufeffcolour,mapping,name,provided_id\r\nred,"{""40"":""1""}","A ""q"",\r\nB",a\r\n');
    expect(await run(["import", file])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('unknown columns: "colour"'),
    });
    expect((await run(["import", file, "--ignore-unknown"])).code).toBe(0);
    const { stdout } = await run(["group", "get", "a", "--json"]);
    expect(JSON.parse(stdout)).toMatchObject({ providedId: "a", name: 'A "q",\r\nB', mapping: { "40": "1" } });
  });

  it.each([
    ["ImportUserGroups", []],
    ["ListUserGroups", ["--verify"]],
  ])("exits with 6 and explains the cause if an older service has no %s RPC", async (missing, flags) => {
    const { gate, folder, run } = await newPlace(server);
    const file = await fileOf(folder, GROUPS.slice(0, 1));
    gate.before = ({ rpc, response }) => {
      if (rpc !== missing) return false;
      response.writeHead(404, { "content-type": "application/json" });
      response.end('{"success":0,"error":{"code":"not_found","reason":"PATH_NOT_FOUND","message":"nothing here"}}');
      return true;
    };
    const { code, stderr } = await run(["import", file, ...flags]);
    expect([code, stderr]).toEqual([6, expect.stringMatching(/does not have this call\n.*older than this ugs/)]);
    expect(callsOf(gate, missing)).toHaveLength(1);
  });

  it("ugs import leaves no state file if it imports no group, and warns if the input has no groups", async () => {
    const { folder, run } = await newPlace(server);
    const file = await fileOf(folder, [{ provided_id: "a", token: "foreign.token" }]);
    expect((await run(["import", file])).code).toBe(2);
    expect(existsSync(`${file}.import-state`)).toBe(false);
    expect((await run(["import", file, "--snapshot-time", new Date().toISOString()])).code).toBe(0);
    await rm(file);
    await writeFile(file, "");
    const empty = await run(["import", file]);
    expect([empty.code, empty.stderr]).toEqual([0, "warning: the input has no groups\n"]);
  });

  it("waits for the time in Retry-After if the service limits the rate of calls or is overloaded", async () => {
    const { gate, folder, counts } = await newPlace(server);
    const file = await fileOf(folder, GROUPS.slice(0, 10));
    const times: number[] = [];
    gate.before = (call) => {
      if (call.rpc !== "ImportUserGroups") return false;
      const nth = times.push(performance.now());
      if (nth === 1) return refuseRate(call, "RATE_LIMITED", 999);
      return nth === 2 && refuseRate(call, "OVERLOADED", 700);
    };
    expect(await counts(["import", file])).toMatchObject({ created: 10, rejected: 0 });
    expect(times).toHaveLength(3);
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(990);
    expect((times[2] ?? 0) - (times[1] ?? 0)).toBeGreaterThanOrEqual(690);
  });

  it("fails without a retry if a response lacks the results of some groups", async () => {
    const { gate, folder, run } = await newPlace(server);
    const file = await fileOf(folder, GROUPS.slice(0, 10));
    gate.before = ({ rpc, response }) => {
      if (rpc !== "ImportUserGroups") return false;
      response
        .writeHead(200, { "content-type": "application/json" })
        .end('{"results":[{"outcome":"OUTCOME_CREATED"}]}');
      return true;
    };
    const { code, stderr } = await run(["import", file]);
    expect([code, stderr]).toEqual([1, expect.stringMatching(/1 results for 10 groups\n/)]);
    expect(callsOf(gate, "ImportUserGroups")).toHaveLength(1);
  });

  it("--dry-run --json reports the outcome for each group and changes nothing", async () => {
    const { environment, folder, run } = await newPlace(server, GROUPS.slice(0, 2));
    const [same, other] = GROUPS as [(typeof GROUPS)[number], (typeof GROUPS)[number]];
    const file = await fileOf(folder, [same, { ...other, name: "Other" }, { provided_id: "new" }, { provided_id: "" }]);
    const { code, stdout } = await run(["import", file, "--upsert", "--dry-run", "--json"]);
    expect([code, jsonLinesIn(stdout)]).toEqual([
      7,
      [
        { line: 1, providedId: "group-0000", result: "unchanged", changedFields: [] },
        { line: 2, providedId: "group-0001", result: "updated", changedFields: ["name"] },
        { line: 3, providedId: "new", result: "created", changedFields: ["name", "mapping", "token"] },
        {
          line: 4,
          providedId: "",
          result: "rejected",
          changedFields: [],
          reason: expect.stringContaining("provided_id"),
        },
        {
          summary: expect.objectContaining({ created: 1, updated: 1, unchanged: 1, rejected: 1, environment }),
        },
      ],
    ]);
    expect(existsSync(join(folder, "groups.rejects.jsonl"))).toBe(false);
    const { environment: found } = await adminOf(server.url).getEnvironment({ environment: { name: environment } });
    expect(found?.name).toBe(environment);
    expect(linesIn((await run(["group", "list"])).stdout)).toHaveLength(3);
  });
});
