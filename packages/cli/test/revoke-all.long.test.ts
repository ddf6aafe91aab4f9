import { join } from "node:path";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { ADMIN_ENV, adminOf } from "../../../test/support/admin.ts";
import { suiteServer } from "../../../test/support/opened.ts";
import { callsOf, GROUPS, newPlace, type Place } from "./support/place.ts";
import { jsonLinesIn } from "./support/ugs.ts";

const REVOKE = "RevokeUserGroupTokens";

describe("ugs group revoke for many groups", () => {
  const server = suiteServer({ env: ADMIN_ENV });

  async function tokensOf({ run, folder }: Place): Promise<ReadonlyMap<string, string>> {
    const file = join(folder, "tokens.jsonl");
    expect((await run(["export", file, "--include-tokens", "--force"])).code).toBe(0);
    const { stdout } = await run(["export", "--json", "--include-tokens"]);
    const groups = jsonLinesIn<{ provided_id?: string; token: string }>(stdout);
    return new Map(groups.flatMap(({ provided_id: id, token }) => (id === undefined ? [] : [[id, token]])));
  }

  /** Returns the ids of the groups whose token has changed. */
  function changedIn(before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] {
    return [...after].flatMap(([id, token]) => (before.get(id) === token ? [] : [id]));
  }

  it("replaces each token once, even if the command is interrupted and run again", async () => {
    const place = await newPlace(server, GROUPS.slice(0, 40));
    const { gate, run, environment } = place;
    const original = await tokensOf(place);
    // After two batches of eight calls, no call reaches the service.
    gate.before = ({ rpc }) => rpc === REVOKE && callsOf(gate, REVOKE).length > 16;
    const controller = new AbortController();
    const running = run(["group", "revoke", "--all", "--yes"], { interrupt: controller.signal });
    await waitFor("some tokens are revoked", () => callsOf(gate, REVOKE).length > 16);
    controller.abort();
    const cut = await running;
    gate.before = () => false;
    expect(cut.code).toBe(130);
    const [, time = ""] = /run the same command again with --before (\S+)/.exec(cut.stderr) ?? [];
    const half = await tokensOf(place);
    const done = changedIn(original, half);
    expect(done).toHaveLength(16);

    // The responses of the third and the twelfth call are lost. A retry must not revoke the tokens again.
    gate.before = ({ rpc, response }) => {
      if (rpc !== REVOKE || ![3, 12].includes(callsOf(gate, REVOKE).length)) return;
      response.writeHead = () => response.destroy() as never;
    };
    gate.calls.length = 0;
    const again = await run(["group", "revoke", "--all", "--before", time, "--yes", "--json"]);
    expect([again.code, again.stderr]).toEqual([0, ""]);
    expect(JSON.parse(again.stdout)).toEqual({
      summary: { environment: `${environment}`, before: time, revoked: 24, left: 16 },
    });
    const after = await tokensOf(place);
    expect(changedIn(half, after)).toHaveLength(24);
    expect(changedIn(original, after)).toHaveLength(40);
    const ids = callsOf(gate, REVOKE).map(({ message }) => message["requestId"]);
    expect(new Set(ids).size).toBe(24);
    expect(ids).toHaveLength(26);

    // A group that is created after the first run keeps its token.
    gate.before = () => false;
    await adminOf(server.url).importUserGroups({
      environment: { name: environment },
      userGroups: [{ providedId: "later" }],
    });
    expect((await run(["group", "revoke", "--all", "--before", time, "--yes"])).stdout).toMatch(
      / 0 user groups; 41 had no token/,
    );
  });

  it("ugs group revoke with --prefix and --grace keeps the old tokens valid; a later run without --grace revokes the old tokens", async () => {
    const place = await newPlace(server, GROUPS.slice(0, 12));
    const { run } = place;
    const original = await tokensOf(place);
    const inGrace = await run(["group", "revoke", "--prefix", "group-001", "--grace", "1h", "--yes"]);
    expect(inGrace).toMatchObject({ code: 0, stdout: expect.stringMatching(/^Revoked the tokens of 2 user groups/) });
    const after = await tokensOf(place);
    expect(changedIn(original, after)).toEqual(["group-0010", "group-0011"]);
    const stateOf = async (token = "") => (await run(["token", "lookup"], { input: token })).code;
    const old = original.get("group-0010");
    expect(await stateOf(old)).toBe(0);
    const [, time = ""] = /created before (\S+Z)/.exec(inGrace.stderr) ?? [];
    const again = (more: string[]) =>
      run(["group", "revoke", "--prefix", "group-001", "--before", time, "--yes", ...more]);
    expect((await again(["--grace", "1h"])).stdout).toMatch(/^Revoked the tokens of 0 user groups/);
    expect((await again([])).stdout).toMatch(/^Revoked the tokens of 2 user groups/);
    expect(await stateOf(old)).toBe(3);
    expect((await run(["group", "revoke", "group-0000", "--grace", "1h", "--yes"])).code).toBe(0);
    expect(await stateOf(original.get("group-0000"))).toBe(0);
  });

  it("revokes nothing if the options are not valid, or if the user does not confirm", async () => {
    const place = await newPlace(server, GROUPS.slice(0, 2));
    const { run, gate, environment } = place;
    for (const [args, words] of [
      [[], "give exactly one"],
      [["a", "--all"], "give exactly one"],
      [["--all", "--prefix", "a"], "give exactly one"],
      [["--prefix", ""], "--prefix must not be empty"],
      [["a", "--before", "1h"], "--before"],
      [["--all", "--request-id", "x"], "--request-id"],
      [["--all"], "give --yes"],
    ] as const) {
      const { code, stderr } = await run(["group", "revoke", ...args]);
      expect([args, code, stderr]).toEqual([args, 2, expect.stringContaining(words)]);
    }
    const refused = await run(["group", "revoke", "--all"], { keys: "yes\r" });
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining(`${environment}`)]);
    expect(callsOf(gate, REVOKE)).toEqual([]);
    expect((await run(["group", "revoke", "--all"], { keys: `${environment}\r` })).code).toBe(0);
    expect(callsOf(gate, REVOKE)).toHaveLength(2);
  });
});
