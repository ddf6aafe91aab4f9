import { readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { freePort } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { adminOf } from "../../../test/support/admin.ts";
import { sharedServer } from "../../../test/support/opened.ts";
import { grpcClients } from "../../../test/support/rpc.ts";
import { exploPages } from "../src/transfer/explo-client.ts";
import { customer, type Hosted, newHosted } from "./support/hosted.ts";
import { newPlace } from "./support/place.ts";
import { summaryOf } from "./support/ugs.ts";

const server = sharedServer();

/** Starts a fake of the hosted service with `count` customers. `run` imports the customers into a new environment. */
async function newMigration(count: number) {
  const hosted = await newHosted(count);
  const { environment, folder, run } = await newPlace(server);
  const file = join(folder, "token");
  await writeFile(file, `${hosted.token}\n`, { mode: 0o600 });
  const explo = `--from-explo --explo-token-file ${file} --explo-url ${hosted.url} --explo-page-size 20`.split(" ");
  const rejects = join(folder, "rejects.jsonl");
  return { hosted, environment, run: (...args: string[]) => run(["import", ...explo, "--rejects", rejects, ...args]) };
}

describe("ugs import --from-explo", () => {
  it("keeps every token, changes nothing when repeated, and reports differences with `--verify`", async () => {
    const { hosted, environment, run } = await newMigration(46);
    const mapping = { "1": "own", "2": "of the parent" };
    hosted.customers[7] = customer(7, {
      properties: { own: 1 },
      computed_properties: { own: 1, inherited: 2 },
      computed_parent_schema_datasource_mapping: mapping,
    });
    expect((await run("--verify")).code).toBe(7);
    const first = await run("--upsert");
    expect(first.stdout).toContain("46  created\n");
    expect(first.stderr).toContain("warning: the values of parent customers are copied to 1 group");
    expect(first.code).toBe(0);
    expect(summaryOf(await run("--upsert", "--json"))).toMatchObject({ unchanged: 46, rejected: 0 });
    const equal = await run("--verify");
    expect([equal.code, equal.stdout]).toEqual([0, expect.stringContaining("46  equal\n")]);
    for (const each of [customer(0), customer(23), customer(45)]) {
      const page = await adminOf(server.url).exportUserGroups({
        ...{ environment: { name: environment }, providedIdPrefix: each.provided_id, includeTokens: true, pageSize: 1 },
      });
      expect(page.userGroups[0]).toMatchObject({ token: each.token, name: each.name, mapping: { "40": "213" } });
    }
    const { userGroup } = await adminOf(server.url).lookupUserGroup({
      environment: { name: environment },
      userGroupId: "customer-7",
    });
    expect(userGroup).toMatchObject({ mapping, properties: { own: 1, inherited: 2 } });
    // With `--explo-values own`, `ugs` reads the same customers without the values of their parents.
    expect(summaryOf(await run("--dry-run", "--upsert", "--explo-values", "own", "--json"))).toMatchObject({
      updated: 1,
    });

    hosted.customers[3] = customer(3, { name: "Renamed", token: "f".repeat(64) });
    hosted.customers.splice(5, 1);
    await grpcClients(server).groups.getUserGroup({ userGroupId: "elsewhere" });
    const differs = await run("--verify");
    expect(differs.code).toBe(7);
    expect(differs.stdout).toMatch(/ 1 {2}different\n44 {2}equal\n(.*\n)* 1 {2}only in the service/);
    expect(differs.stderr).toMatch(
      /^"customer-3": differs: name, token\n(.*\n)*"customer-5": is only in the service\n/,
    );
    for (const { stdout, stderr } of [first, differs, equal]) {
      for (const secret of [hosted.token, "f".repeat(64), customer(3).token])
        expect(stdout + stderr).not.toContain(secret);
    }
  });

  it("imports every customer even if the list changes during the import", async () => {
    const { hosted, run } = await newMigration(50);
    let reads = 0;
    hosted.before = (page) => {
      reads += 1;
      if (page !== 2 || reads > 2) return false;
      // The two new customers move all other customers to later positions. The removal of three customers moves later
      // customers to earlier positions, and some of them to the previous page.
      hosted.customers.unshift(customer(9001), customer(9002));
      hosted.customers.splice(10, 3);
      return false;
    };
    const imported = summaryOf(await run("--json"));
    // The first page was read before the removal, so the import includes the removed customers.
    expect(imported).toMatchObject({ created: 52, rejected: 0 });
    hosted.before = () => false;
    const { stdout } = await run("--verify");
    expect(stdout).toMatch(
      / 0 {2}missing in the service\n *0 {2}different\n49 {2}equal\n(.*\n)* 3 {2}only in the service/,
    );
  });

  it("waits for the time in Retry-After, and retries temporary failures", async () => {
    const { hosted, run } = await newMigration(30);
    const answers: readonly [status: number, fields: { readonly [name: string]: string }][] = [
      [429, { "retry-after": "1" }],
      [503, {}],
      [200, { "content-length": "10" }],
      [500, {}],
    ];
    let i = 0;
    const times: number[] = [];
    hosted.before = (page, response) => {
      times.push(performance.now());
      const next = page === 2 ? answers[i++] : undefined;
      if (!next) return false;
      response.writeHead(next[0], next[1]);
      // The response with the status 200 ends in the middle of its body.
      if (next[0] === 200) response.write("{", () => response.destroy());
      else response.end("{}");
      return true;
    };
    const run1 = await run("--json");
    expect(summaryOf(run1)).toMatchObject({ created: 30 });
    expect(hosted.requested).toEqual([1, 2, 2, 2, 2, 2]);
    expect((times[2] ?? 0) - (times[1] ?? 0)).toBeGreaterThanOrEqual(990);
  });

  it("waits one minute after a rate-limit response without a valid Retry-After", async () => {
    const hosted = await newHosted(1);
    for (const fields of [{}, { "retry-after": "soon" }]) {
      hosted.before = (_, response) => {
        response.writeHead(429, fields).end();
        return true;
      };
      const controller = new AbortController();
      const pauses: number[] = [];
      const onPause = (pauseMs: number) => {
        pauses.push(pauseMs);
        controller.abort();
      };
      const { signal } = controller;
      const { url, token } = hosted;
      const options = { url: new URL(url), token, pageSize: 20, unusedProxy: undefined, signal, onPause };
      await expect(exploPages(options)(1)).rejects.toThrow();
      expect(pauses).toEqual([60_000]);
    }
  });

  it("does not retry a page that is too large", async () => {
    const { hosted, run } = await newMigration(1);
    hosted.before = (_, response) => {
      response.end(Buffer.alloc(129 * 1024 * 1024, " "));
      return true;
    };
    const { code, stderr } = await run();
    expect([code, stderr]).toEqual([
      6,
      expect.stringContaining("is larger than 128 MiB\n  give a lower --explo-page-size"),
    ]);
    expect(hosted.requested).toEqual([1]);
  });

  it("reads the list again if two pages are equal, and fails if all pages are always equal", async () => {
    const { hosted, run } = await newMigration(50);
    const pageOne = (response: Parameters<Hosted["before"]>[1]) => {
      const customers = hosted.customers.slice(0, 20);
      response.end(JSON.stringify({ total_count: 50, results: { customers } }));
      return true;
    };
    let wasRepeated = false;
    hosted.before = (page, response) => {
      if (page !== 2 || wasRepeated) return false;
      wasRepeated = true;
      return pageOne(response);
    };
    expect(summaryOf(await run("--json"))).toMatchObject({ created: 50, rejected: 0 });
    hosted.before = (_, response) => pageOne(response);
    const { code, stderr } = await run();
    expect(code).toBe(6);
    expect(stderr).toMatch(/50 customers, but lists only 20\n/);
  });

  it("rejects customers that are malformed, have no token or repeat an id, and imports the other customers", async () => {
    const { hosted, run } = await newMigration(5);
    hosted.customers[1] = { ...customer(1), token: undefined } as unknown as (typeof hosted.customers)[number];
    hosted.customers[2] = customer(2, { name: null as unknown as string });
    hosted.customers[3] = customer(3, { provided_id: "customer-0" });
    hosted.customers.push("none" as unknown as (typeof hosted.customers)[number]);
    const imported = await run("--json");
    const { rejects, ...counts } = summaryOf(imported);
    expect([imported.code, counts]).toEqual([7, expect.objectContaining({ created: 3, rejected: 3 })]);
    const text = await readFile(String(rejects), "utf8");
    expect([...text.matchAll(/^#ugs line \d+: (.*)$/gm)].map(([, reason]) => reason)).toEqual([
      "token: is missing",
      "provided_id: an earlier group has this id",
      "is not a customer",
    ]);
    expect((await stat(String(rejects))).mode & 0o777).toBe(0o600);
  });

  it.each([
    [
      "rejects the token",
      (hosted: Hosted) => void Object.assign(hosted, { token: "another" }),
      4,
      /rejects the token \(401\)/,
    ],
    [
      "redirects",
      (hosted: Hosted) => {
        hosted.before = (_, response) => Boolean(response.writeHead(308, { location: "http://127.0.0.1:9/" }).end());
      },
      6,
      /308\n.*the new URL/,
    ],
    [
      "returns HTML",
      (hosted: Hosted) => {
        hosted.before = (_, response) => Boolean(response.end("<html>"));
      },
      6,
      /did not return JSON\n {2}check --explo-url/,
    ],
    [
      "returns JSON without a list of customers",
      (hosted: Hosted) => {
        hosted.before = (_, response) => Boolean(response.end('{"customers":[]}'));
      },
      6,
      /did not return a list of customers/,
    ],
  ])("fails and explains the cause if the hosted service %s", async (_, change, code, words) => {
    const { hosted, run } = await newMigration(1);
    change(hosted);
    const ended = await run();
    expect([ended.code, ended.stdout]).toEqual([code, ""]);
    expect(ended.stderr).toMatch(words);
    const nowhere = await run("--explo-url", `http://127.0.0.1:${await freePort()}`);
    expect([nowhere.code, nowhere.stderr]).toEqual([
      6,
      expect.stringMatching(/^ugs: cannot reach .*: nothing listens at/),
    ]);
    const plain = await run("--explo-url", "http://api.explo.example");
    expect([plain.code, plain.stderr]).toEqual([2, expect.stringContaining("--explo-url must be an https URL")]);
  });
});
