import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { describe, expect, it } from "vitest";
import { sharedServer } from "../../../test/support/opened.ts";
import { jsonLinesIn, type RunOptions, TIME, usersOf } from "./support/ugs.ts";

describe("viewer sessions and the keys that sign them", () => {
  const server = sharedServer();
  const { as, root, ...users } = usersOf(server);

  /** Creates an environment with the group `acme` and an API token of role `admin`. */
  async function newEnvironment() {
    const { name, admin } = await users.newEnvironment();
    const properties = join(newFolder(), "properties.json");
    writeFileSync(properties, '{"plan":"gold","region":"eu","note":"internal"}');
    const token = (await admin(`group create acme --properties ${properties}`)).stdout.trim();
    return { env: name, admin, token };
  }

  async function newSession(run: ReturnType<typeof as>, args = ""): Promise<string> {
    const made = await run(`viewer session create --group acme --audience dashboards${args}`);
    expect(made).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+\n$/) });
    return made.stdout.trim();
  }

  it("`create` accepts the id or the token of a group, and `resolve` shows the claims", async () => {
    const { env, admin, token } = await newEnvironment();
    const folder = newFolder();
    const create = (args: string, options?: RunOptions) =>
      admin(`viewer session create --audience dashboards${args}`, options);
    const made = await create(
      ' --group acme --viewer bob --ttl 5m --origin https://app.example.com --property plan --property region --claims {"theme":"dark"}',
    );
    const session = made.stdout.trim();
    expect(made.stderr).toMatch(
      new RegExp(
        `^Created the viewer session [\\w-]+ for dashboards\\. It expires at ${TIME}; create the next session at ${TIME}\\. .*\n$`,
      ),
    );
    const resolved = await admin("viewer resolve", { input: session });
    expect(resolved.stdout).toMatch(
      new RegExp(
        `^group +acme\n[^]*^audience +dashboards\nviewer +bob\norigin +https://app\\.example\\.com\nclaims +\\{"theme":"dark"\\}\nsession since +${TIME}\nsession expires +${TIME}\n$`,
        "m",
      ),
    );
    const shown = JSON.parse(Buffer.from(session.split(".")[1] ?? "", "base64url").toString()) as object;
    expect(shown).toMatchObject({ properties: { plan: "gold", region: "eu" }, ext: { theme: "dark" } });
    expect(shown).not.toHaveProperty("properties.note");
    expect(shown).toSatisfy(({ exp, iat }: { exp: number; iat: number }) => exp - iat === 300);

    const [ofGroup, claims] = [join(folder, "token"), join(folder, "claims.json")];
    writeFileSync(ofGroup, token, { mode: 0o600 });
    writeFileSync(claims, '{"from":"a file"}');
    const byFile = JSON.parse((await create(` --from-file ${ofGroup} --claims ${claims} --json`)).stdout) as {
      readonly session: string;
    };
    expect(byFile).toMatchObject({ id: expect.any(String), refreshTime: expect.stringMatching(/^20/) });
    const byInput = await create("", { input: token });
    const byHand = await create("", { keys: `${token}\r` });
    expect(byHand.stderr).not.toContain(token);
    for (const [text, ext] of [
      [byFile.session, { from: "a file" }],
      [byInput.stdout, undefined],
      [byHand.stdout, undefined],
    ] as const) {
      const found = await admin("viewer resolve --audience dashboards --json", { input: text });
      expect(JSON.parse(found.stdout)).toMatchObject({ providedId: "acme", session: ext ? { claims: ext } : {} });
    }
    const other = await admin("viewer resolve --audience reports", { input: session });
    expect([other.code, other.stderr]).toEqual([3, expect.stringContaining("VIEWER_SESSION_INVALID")]);

    const resolver = as((await admin("token create --role resolve --name pages")).stdout.trim());
    expect((await resolver("viewer session create --audience a", { input: token })).code).toBe(0);
    expect((await resolver("viewer session create --audience a --group acme")).code).toBe(4);
    expect((await root("viewer session create --audience a --group acme", { env: { UGS_ENV: env } })).code).toBe(4);
    expect(await create(" --group nobody")).toMatchObject({ code: 3 });
    expect(await create("", { input: "ugt_00000000000000000000000000000000000000" })).toMatchObject({ code: 3 });
    const list = join(folder, "list.json");
    writeFileSync(list, "[1]");
    for (const [args, words] of [
      [" --group acme --from-file x", "give exactly one"],
      [" --group acme --ttl soon", "--ttl must be a duration"],
      [" --group acme --ttl 59s", "ttl"],
      [" --group acme --ttl 2h", "ttl"],
      [" --group acme --viewer ", "--viewer must not be empty"],
      [" --group acme --origin app.example.com", "origin"],
      [" --group acme --claims {theme:dark}", "--claims is not valid JSON"],
      [" --group acme --claims [1]", "--claims is not a JSON object"],
      [` --group acme --claims ${list}`, `${list} is not a JSON object`],
      [" --group acme --claims /nowhere.json", "no such file"],
      [` --group acme --claims {"x":"${"x".repeat(3000)}"}`, "claims"],
      ["", "standard input is empty"],
    ] as const) {
      const { code, stdout, stderr } = await create(args);
      expect([args, code, stdout, stderr]).toEqual([args, 2, "", expect.stringContaining(words)]);
    }
    expect(await admin("viewer session create --group acme")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("--audience"),
    });
    expect(await admin("viewer session")).toMatchObject({ code: 2, stderr: expect.stringContaining("revoke") });
  });

  it("after a confirmation, `viewer session revoke` revokes the sessions of one viewer or of the whole group", async () => {
    const { env, admin, token } = await newEnvironment();
    const [bob, eve, nobody] = [
      await newSession(admin, " --viewer bob"),
      await newSession(admin, " --viewer eve"),
      await newSession(admin),
    ];
    const codes = async () => {
      const found = await Promise.all([bob, eve, nobody].map((input) => admin("viewer resolve", { input })));
      return found.map(({ code }) => code);
    };
    expect(await admin("viewer session revoke acme")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("give --yes"),
    });
    // An empty viewer id, such as from an unset variable in a script, revokes nothing.
    expect(await admin("viewer session revoke acme --yes --viewer ")).toMatchObject({ code: 2 });
    expect(await admin("viewer session revoke acme --viewer bob", { keys: "acme\r" })).toMatchObject({ code: 2 });
    expect(await codes()).toEqual([0, 0, 0]);
    const ofBob = await admin("viewer session revoke acme --viewer bob", { keys: "bob\r" });
    expect(ofBob).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("Revoked the viewer sessions of the viewer bob of acme"),
    });
    expect(await codes()).toEqual([3, 0, 0]);
    const ended = await admin("viewer resolve", { input: bob });
    expect(ended.stderr).toMatch(/ugs viewer session create creates a new session.*\n.*VIEWER_SESSION_ENDED/);
    const ofAll = await root(`viewer session revoke acme --yes --json --env ${env}`);
    expect(ofAll).toMatchObject({ code: 0, stdout: "{}\n", stderr: "" });
    expect(await codes()).toEqual([3, 3, 3]);
    expect((await admin("viewer resolve", { input: token })).code).toBe(0);
    expect(await admin("viewer session revoke nobody --yes")).toMatchObject({ code: 3 });
  });

  it("`signing-key` lists and rotates keys, and `--end-sessions` revokes all sessions after a confirmation", async () => {
    const { env, admin } = await newEnvironment();
    const none = await admin("signing-key list");
    expect([none.code, none.stdout, none.stderr]).toEqual([0, "", expect.stringContaining("There are no keys yet")]);
    const session = await newSession(admin);
    const resolve = async () => (await admin("viewer resolve", { input: session })).code;
    const first = await admin("signing-key list");
    expect(first.stdout).toMatch(/^KEY +STATE +SIGNS FROM +SIGNS UNTIL +PUBLISHED UNTIL$/m);
    expect(first.stdout).toMatch(new RegExp(`^\\S+ +active +${TIME} +`, "m"));
    const idsOf = (stdout: string) => jsonLinesIn<{ readonly id: string }>(stdout).map(({ id }) => id);
    const before = idsOf((await root(`signing-key list --json --env ${env}`)).stdout);

    const rotated = await root(`signing-key rotate --env ${env}`);
    expect([rotated.code, rotated.stderr]).toEqual([0, ""]);
    expect(rotated.stdout).toMatch(new RegExp(`^\\S+ +standby +${TIME}`, "m"));
    expect(await resolve()).toBe(0);

    const ask = `signing-key rotate --end-sessions --env ${env}`;
    expect(await root(ask)).toMatchObject({ code: 2, stderr: expect.stringContaining("give --yes") });
    expect(await root(ask, { keys: "\r" })).toMatchObject({ code: 2 });
    expect(await resolve()).toBe(0);
    const ended = await root(ask, { keys: `${env}\r` });
    expect([ended.code, ended.stderr]).toEqual([0, expect.stringContaining(`Revoked the viewer sessions of ${env}.`)]);
    expect(await resolve()).toBe(3);
    const after = idsOf((await root(`${ask} --yes --json`)).stdout);
    expect(after.filter((id) => before.includes(id))).toEqual([]);

    expect(await root("signing-key rotate --end-sessions --yes")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("give --env NAME"),
    });
    expect(await admin(`signing-key rotate --env ${env}`)).toMatchObject({ code: 4 });
    expect(await root("signing-key list --env nowhere")).toMatchObject({ code: 3 });
  });
});
