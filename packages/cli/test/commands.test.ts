import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { ADMIN_ENV, ADMIN_TOKEN } from "../../../test/support/admin.ts";
import { suiteServer } from "../../../test/support/opened.ts";
import { jsonLinesIn, linesIn, TIME, ugs, usersOf } from "./support/ugs.ts";

/** A token in the setting ADMIN_TOKEN. The token has the form of a viewer session. */
const JWT_TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJhIjoxfQ.c2lnbmF0dXJl";

describe("ugs", () => {
  const server = suiteServer({ env: { ...ADMIN_ENV, ADMIN_TOKEN: `${ADMIN_TOKEN},${JWT_TOKEN}` } });
  const { as, root, newEnvironment } = usersOf(server);

  it("creates, shows, lists and deletes environments", async () => {
    const created = await root("env create life/Customer");
    expect(created.stdout).toMatch(new RegExp(`^environment  life/Customer\ncreated      ${TIME}\n$`));
    expect(await root("env create life/Customer")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("ENVIRONMENT_EXISTS"),
    });
    const token = (
      await root("token create --role manage --name x", { env: { UGS_ENV: "life/Customer" } })
    ).stdout.trim();
    await as(token)("group create one");
    const found = await root("env get life/Customer");
    expect(found.stdout).toMatch(/^user groups {2}1\nAPI tokens {3}1$/m);
    expect(JSON.parse((await root("env get life/Customer --json")).stdout)).toMatchObject({ userGroupCount: "1" });
    const full = await root("env delete life/Customer --yes");
    expect([full.code, full.stderr]).toEqual([5, expect.stringContaining("give --force")]);
    expect((await root("env list")).stdout).toContain("life/Customer");
    const gone = await root("env delete life/Customer --force --yes");
    expect([gone.code, gone.stdout, gone.stderr]).toEqual([0, "", "The environment life/Customer is deleted.\n"]);
    for (const args of ["env get life/Customer", "env delete life/Customer --yes"]) {
      expect(await root(args)).toMatchObject({ code: 3, stderr: expect.stringContaining("ugs env list") });
    }
    expect(await root("env get life/Else")).toMatchObject({ code: 2, stderr: expect.stringContaining("NAME/Testing") });
    expect(await root("env get")).toMatchObject({ code: 2, stderr: expect.stringContaining("give --env NAME") });
  });

  it("writes a note if a list is empty", async () => {
    const { admin } = await newEnvironment();
    for (const [args, note] of [
      ["group list", "No user groups were found.\n"],
      ["token list --role read", "No API tokens were found.\n"],
      ["audit --method AcceptStoreData", "No events were found.\n"],
    ] as const) {
      expect([args, await admin(args)]).toEqual([args, { code: 0, stdout: "", stderr: note }]);
      expect(await admin(`${args} --json`)).toEqual({ code: 0, stdout: "", stderr: "" });
    }
  });

  it("suspends a user group, shows its state but not its token, and resumes the group", async () => {
    const { admin } = await newEnvironment();
    const { stdout: token } = await admin("group create acme --expire-time 30d");
    const suspended = await admin("group suspend acme --reason unpaid --message Sorry. --until 7d");
    expect(suspended.code).toBe(0);
    for (const { stdout } of [suspended, await admin("group get acme")]) {
      expect(stdout).toMatch(/^suspension reason {2,}unpaid$/m);
      expect(stdout).toMatch(/^message for the page {2,}Sorry\.$/m);
      for (const label of ["suspended since", "suspended until", "expires"])
        expect(stdout).toMatch(new RegExp(`^${label} {2,}${TIME}$`, "m"));
    }
    expect((await admin("group list")).stdout).toMatch(/^acme +acme +suspended +/m);
    const refused = await admin("viewer resolve", { input: token });
    expect([refused.code, refused.stderr]).toEqual([5, expect.stringContaining("USER_GROUP_SUSPENDED")]);
    const folder = newFolder();
    for (const command of [
      "group create acme",
      "group rotate acme",
      `group create acme --out ${join(folder, "token")}`,
    ]) {
      const { code, stdout, stderr } = await admin(command);
      expect([code, stdout]).toEqual([5, ""]);
      expect(stderr).toContain("the user group acme is suspended, so its token is not shown");
    }
    expect(readdirSync(folder)).toEqual([]);
    const resumed = await admin("group resume acme --json");
    expect(JSON.parse(resumed.stdout)).toMatchObject({ providedId: "acme", expireTime: expect.any(String) });
    expect(resumed.stdout).not.toContain("suspension");
    expect((await admin("group list")).stdout).toMatch(/^acme +acme +active +/m);
    expect((await admin("group create acme")).stdout).toMatch(/^ugt_/);

    const expired = await admin("group update acme --expire-time 2020-01-01");
    expect(expired.stdout).toMatch(/^suspension reason {2,}EXPIRED$/m);
    expect(await admin("group resume acme")).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("--expire-time never"),
    });
    expect((await admin("group update acme --expire-time never")).stdout).not.toMatch(/EXPIRED|expires/);
    for (const bad of ["--until 2020-01-01", "--until tomorrow", `--reason ${"x".repeat(257)}`, "--reason EXPIRED"])
      expect((await admin(`group suspend acme ${bad}`)).code).toBe(2);
    expect((await admin("group suspend nobody")).code).toBe(3);
  });

  it("creates, lists, changes, rotates, looks up and revokes API tokens", async () => {
    const { name, admin } = await newEnvironment();
    const created = await root(`token create -e ${name} --role resolve --name dashboard --expires 90d`);
    const token = created.stdout.trimEnd();
    expect(token).toMatch(/^ugk_\w{40}$/);
    const id = /^API token (\S+), "dashboard", role resolve, expires 20/.exec(created.stderr)?.[1] ?? "";
    expect(created.stderr).not.toContain(token);
    const json = JSON.parse((await admin("token create --role read --name other --json")).stdout) as { token: string };
    expect(json).toMatchObject({ token: expect.stringMatching(/^ugk_/), apiToken: { role: "ROLE_READ" } });

    const list = await admin("token list");
    expect(list.stdout).toMatch(/^API TOKEN +NAME +ROLE +LAST USED +EXPIRES +CREATED BY$/m);
    expect(list.stdout).toMatch(new RegExp(`^${id} +dashboard +resolve +never +${TIME} +root$`, "m"));
    expect(list.stdout).not.toMatch(/ugk_/);
    expect(linesIn((await admin("token list --role resolve")).stdout)).toHaveLength(2);
    const ofRoot = await admin("token list --creator root --json --limit 1");
    expect(JSON.parse(ofRoot.stdout)).toMatchObject({ creator: "root" });

    expect((await admin(`token update ${id} --name renamed --expires never`)).stdout).toMatch(
      /^name +renamed\nrole +resolve\nexpires +never$/m,
    );
    expect(await admin(`token update ${id}`)).toMatchObject({ code: 2, stderr: expect.stringContaining("--name") });

    const rotated = await admin(`token rotate ${id} --grace 1h`);
    expect(rotated.stdout).toMatch(/^ugk_\w{40}\n$/);
    expect(rotated.stdout.trim()).not.toBe(token);
    expect(rotated.stderr).toMatch(new RegExp(`The old secret is valid until ${TIME}`));
    const looked = await admin("token lookup", { input: `${token}\n` });
    expect(looked.stdout).toMatch(new RegExp(`^API token +${id}\n`));
    expect(looked.stdout).toMatch(/^source +issued\nreplaced +yes$/m);
    expect(looked.stderr).toBe(`To revoke it: ugs token revoke ${id} --issued --env ${name}\n`);
    const ofAdmin = await root("token lookup", { input: (await newEnvironment()).token });
    expect(ofAdmin.stderr).toMatch(/^Its bearer could read .*: ugs group revoke --all --env \w+\/Testing$/m);
    for (const input of [ADMIN_TOKEN, JWT_TOKEN]) {
      const ofSettings = await root("token lookup", { input });
      expect(ofSettings.stdout).toMatch(/^source +admin_token$/m);
      expect(ofSettings.stderr).toMatch(/^Its bearer could read .* --all --env NAME\/TAG\n$/);
    }
    expect(await admin("token lookup", { input: "no such token at all" })).toMatchObject({ code: 2 });
    expect(await admin("token lookup", { input: "no-such-token-at-all" })).toMatchObject({ code: 3 });
    expect(await admin("token lookup", { input: "" })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("standard input"),
    });

    expect(await admin(`token revoke ${id}`)).toMatchObject({ code: 2, stderr: expect.stringContaining("give --yes") });
    expect(await admin(`token revoke ${id} --yes`)).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^Revoked 1 API token\.\n.*ugs group revoke --all$/m),
    });
    expect(await admin(`token revoke ${id} --yes`)).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("ugs token list"),
    });
    expect(await root(`token rotate ${id} -e ${name}`)).toMatchObject({ code: 3 });
    for (const args of [
      "token create --role owner --name x",
      "token create --role read",
      "token create --role read --name x --expires yesterday",
      "token create --role read --name x --expires 2020-01-01",
      // These days and hours do not exist.
      "token create --role read --name x --expires 2999-02-29",
      "token create --role read --name x --expires 2999-04-31T12:00:00Z",
      "token create --role read --name x --expires 2999-04-30T24:00:00Z",
      "token rotate x --grace 31d",
      "token rotate x --grace soon",
      "token list --creator root more",
    ]) {
      expect([args, (await admin(args)).code]).toEqual([args, 2]);
    }
  });

  it("`token lookup` finds the group of a token or viewer session, and with ADMIN_TOKEN searches all environments", async () => {
    const { name, admin } = await newEnvironment();
    const { admin: other } = await newEnvironment();
    const { stdout: group } = await admin("group create acme --name Acme");
    const { stdout: viewer } = await admin("viewer session create --group acme --audience web --viewer bob");
    const foreign = `foreign.${"0123456789abcdef".repeat(3)}`;
    const groups = join(newFolder(), "groups.jsonl");
    writeFileSync(groups, JSON.stringify({ provided_id: "globex", token: foreign }));
    for (const by of [admin, other])
      expect((await by(`import ${groups} --snapshot-time 2026-01-31T08:00:00Z`)).code).toBe(0);
    for (const by of [admin, root]) {
      const ofGroup = await by("token lookup", { input: group });
      expect(ofGroup.stdout).toMatch(
        new RegExp(`^source +a user group token\ngroup +acme\nname +Acme\n(.*\n)*environment +${name}\n$`),
      );
      expect(ofGroup.stderr).toBe(`To revoke it: ugs group revoke --env ${name} -- acme\n`);
      const ofViewer = await by("token lookup", { input: viewer });
      expect(ofViewer.stdout).toMatch(/^source +a viewer session\ngroup +acme\n(.*\n)*viewer +bob$/m);
      expect(ofViewer.stderr).toBe(`To revoke it: ugs viewer session revoke --env ${name} -- acme\n`);
    }
    // Groups in two environments have this token.
    expect((await root("token lookup", { input: foreign })).stdout.match(/^group +globex$/gm)).toHaveLength(2);
    expect((await other("token lookup", { input: foreign })).stdout.match(/^group +globex$/gm)).toHaveLength(1);
    expect((await other("token lookup", { input: group })).code).toBe(3);
    expect((await admin("group revoke acme --yes")).code).toBe(0);
    expect(await root("token lookup", { input: group })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("no environment has this token"),
    });
    expect(await root("token lookup", { input: viewer })).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("VIEWER_SESSION_ENDED"),
    });
  });

  it("`--out` writes a secret to a new private file; if the path is not valid, `ugs` creates no token", async () => {
    const { admin } = await newEnvironment();
    const folder = newFolder();
    const [file, groupFile] = [join(folder, "x.token"), join(folder, "group token")];
    const made = await admin(`token create --role manage --name x --out ${file}`);
    expect([made.code, made.stdout, made.stderr]).toEqual([
      0,
      "",
      expect.stringContaining(`The secret is written to ${file}.`),
    ]);
    const token = readFileSync(file, "utf8");
    expect(token).toMatch(/^ugk_\w{40}\n$/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const bearer = as(token.trim());
    expect((await bearer("whoami")).stdout).toMatch(/^role +manage$/m);
    const count = async () => linesIn((await admin("token list")).stdout).length;
    const before = await count();
    const id = /API token (\S+),/.exec(made.stderr)?.[1] ?? "";
    for (const [args, words] of [
      [`token create --role manage --name x --out ${file}`, "already exists"],
      [`token rotate ${id} --out ${file}`, "--force"],
      [`token create --role manage --name x --out ${folder}`, "is a directory"],
      [`token create --role manage --name x --out ${folder}/none/x`, "no such file or directory"],
      [`token create --role manage --name x --out ${folder}/${"x".repeat(250)}`, "ENAMETOOLONG"],
      ["token create --role manage --name x --out /dev/null --force", "is not a regular file"],
      ["token create --role manage --name x --force", "--out"],
    ] as const) {
      expect(await admin(args)).toMatchObject({ code: 2, stdout: "", stderr: expect.stringContaining(words) });
    }
    expect(await count()).toBe(before);
    expect(readFileSync(file, "utf8")).toBe(token);
    chmodSync(file, 0o644);
    expect((await admin(`token rotate ${id} --grace 1h --out ${file} --force`)).code).toBe(0);
    expect(readFileSync(file, "utf8")).not.toBe(token);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    // If `--json` is set, the file contains the message that standard output would show.
    const json = await ugs(["group", "create", "acme", "--json", "--out", groupFile], {
      env: { UGS_URL: server.url, UGS_TOKEN: token.trim() },
    });
    expect([json.code, json.stdout, json.stderr]).toEqual([0, "", ""]);
    expect(JSON.parse(readFileSync(groupFile, "utf8"))).toMatchObject({ providedId: "acme" });
    for (const args of ["group rotate acme", "viewer session create --group acme --audience web"]) {
      expect((await bearer(`${args} --out ${file} --force`)).code).toBe(0);
      expect(readFileSync(file, "utf8")).toMatch(/^(?:ugt_\w{38}|ey[\w.-]+)\n$/);
    }
    expect((await bearer("group create acme --out -")).stdout).toMatch(/^ugt_/);
    expect(readdirSync(folder).sort()).toEqual(["group token", "x.token"]);
  });

  it("creates, shows, lists, changes, rotates, resolves, revokes and deletes user groups", async () => {
    const { admin, token: adminToken } = await newEnvironment();
    const folder = newFolder();
    const properties = join(folder, "properties.json");
    writeFileSync(properties, '{"plan":"gold"}');
    const created = await admin(`group create acme --name Acme --mapping a=1 b=2=3 --properties ${properties}`);
    const token = created.stdout.trimEnd();
    expect(token).toMatch(/^ugt_\w{38}$/);
    expect(created.stderr).toBe("Created the user group acme. Its token is written to standard output.\n");
    const again = await admin("group create acme --name Else");
    expect([again.stdout.trimEnd(), again.stderr]).toEqual([token, expect.stringContaining("exists already")]);

    const found = await admin("group get acme");
    expect(found.stdout).toMatch(/^group +acme\nname +Acme\n.*^mapping +a=1, b=2=3\nproperties +\{"plan":"gold"\}$/ms);
    expect(found.stdout).not.toContain(token);
    expect(await admin("group get acm")).toMatchObject({ code: 3, stderr: expect.stringContaining("ugs group list") });

    const etag = /^etag +(\S+)$/m.exec(found.stdout)?.[1] ?? "";
    const updated = await admin(`group update acme --name New --clear mapping --etag ${etag}`);
    expect(updated.stdout).toMatch(/^name +New$/m);
    expect(updated.stdout).not.toMatch(/^mapping/m);
    const asJson = await admin("group update acme --name New --json");
    expect(asJson.stdout).toContain('"name":"New"');
    expect(asJson.stdout + updated.stdout).not.toContain(token);
    const stale = await admin(`group update acme --name Newer --etag ${etag}`);
    expect([stale.code, stale.stderr]).toEqual([5, expect.stringContaining("ETAG_MISMATCH")]);

    for (const id of ["acme-2", "zeta"]) await admin(`group create ${id}`);
    const ids = async (args: string) =>
      linesIn((await admin(`group list ${args}`)).stdout)
        .slice(1)
        .map((row) => row.split(" ")[0]);
    expect(await ids("--prefix acme")).toEqual(["acme", "acme-2"]);
    expect(await ids("--limit 2")).toEqual(["acme", "acme-2"]);
    expect(await ids("--limit 1000000")).toEqual(["acme", "acme-2", "zeta"]);
    expect((await admin("group list --prefix none")).stdout).toBe("");

    const resolved = await admin("viewer resolve", { input: token });
    expect(resolved.stdout).toMatch(/^group +acme\nname +New\nteam id +\d+\nproperties +\{"plan":"gold"\}\n$/);
    const file = join(folder, "token");
    writeFileSync(file, `${token}\n`, { mode: 0o600 });
    const rotated = await admin(`group rotate --current-token-file ${file} --grace 1h`);
    const second = rotated.stdout.trimEnd();
    expect([rotated.stderr, second === token]).toEqual([
      expect.stringContaining("Replaced the token of the user group acme"),
      false,
    ]);
    expect((await admin(`viewer resolve --from-file ${file}`)).stdout).toMatch(/^token expires +20/m);
    const once = await admin("group rotate acme --request-id r1");
    expect((await admin("group rotate acme --request-id r1")).stdout).toBe(once.stdout);
    expect(await admin("viewer resolve", { input: second })).toMatchObject({ code: 3 });
    chmodSync(file, 0o644);
    const shared = await admin(`viewer resolve --from-file ${file}`);
    expect([shared.code, shared.stderr]).toEqual([2, expect.stringContaining(`run: chmod 600 ${file}`)]);

    expect((await admin("group revoke acme --yes")).stdout).toMatch(/^last rotation +20/m);
    expect(await admin("viewer resolve", { input: once.stdout })).toMatchObject({ code: 3 });
    expect(await admin("group delete acme")).toMatchObject({ code: 2, stderr: expect.stringContaining("give --yes") });
    expect(await admin("group delete acme --yes --etag else")).toMatchObject({ code: 5 });
    expect(await admin("group delete acme --yes --json")).toMatchObject({ code: 0, stdout: "{}\n", stderr: "" });
    expect(await admin("group get acme")).toMatchObject({ code: 3 });

    const broken = join(folder, "broken.json");
    writeFileSync(broken, "[1]");
    for (const args of [
      "group update zeta",
      "group update zeta --name x --clear name",
      "group update zeta --clear etag",
      "group create zeta --mapping x",
      `group create zeta --properties ${broken}`,
      "group create zeta --properties /nowhere.json",
      "group rotate",
      "group rotate zeta --current-token-file -",
      "group create zeta --env e1/Testing",
      `group create ${"x".repeat(257)}`,
    ]) {
      expect([args, (await admin(args)).code]).toEqual([args, 2]);
    }
    expect(adminToken).toMatch(/^ugk_/);
  });

  it("deletes a group only after the user types its id", async () => {
    const { admin } = await newEnvironment();
    await admin("group create acme");
    for (const [keys, code, words] of [
      ["acme-2\r", 2, "the answer is not acme: nothing was done"],
      ["\r", 2, "nothing was done"],
      ["\u0003", 130, "interrupted"],
      ["\u0004", 2, "nothing was done"],
    ] as const) {
      const requested = await admin("group delete acme", { keys });
      expect([keys, requested.code, requested.stderr]).toEqual([keys, code, expect.stringContaining(words)]);
      expect((await admin("group get acme")).code).toBe(0);
    }
    const deleted = await admin("group delete acme", { keys: "acme\r" });
    expect([deleted.code, deleted.stderr]).toEqual([
      0,
      expect.stringContaining("This permanently deletes the user group acme"),
    ]);
    expect((await admin("group get acme")).code).toBe(3);
  });

  it("ugs stops at Ctrl-C while it waits for a token on standard input", async () => {
    const controller = new AbortController();
    const waiting = root("viewer resolve", { isInputOpen: true, interrupt: controller.signal });
    controller.abort();
    expect(await waiting).toMatchObject({ code: 130, stderr: "ugs: interrupted\n" });
  });

  it("`audit` lists the newest events first, filters events, and follows new events until Ctrl-C", async () => {
    const { admin } = await newEnvironment();
    await admin("group create a --name A");
    await admin("group update a --name B");
    const lines = async (args: string) => linesIn((await admin(args)).stdout).slice(1);
    await admin("export --include-tokens --prefix a");
    expect(await lines("audit --method ExportUserGroups")).toEqual([
      expect.stringMatching(/ExportUserGroups +1 user group, ids starting with a +token/),
    ]);
    const all = (await lines("audit")).slice(1);
    // A terminal that does not report its width has 0 columns.
    expect(linesIn((await admin("audit", { columns: 0 })).stdout).slice(2)).toEqual(all);
    expect(all.map((line) => line.split(/ {2,}/)[1])).toEqual([
      "UpdateUserGroup",
      "GetUserGroup",
      "CreateApiToken",
      "CreateEnvironment",
    ]);
    expect(all[0]).toMatch(new RegExp(`^${TIME}  UpdateUserGroup +a +name +operator$`));
    expect(await lines("audit --limit 1")).toHaveLength(1);
    expect(await lines("audit --group a --method GetUserGroup")).toHaveLength(1);
    expect(await lines("audit --actor root --since 1h")).toHaveLength(2);
    expect((await admin("audit --until 1h")).stdout).toBe("");
    for (const args of [
      "audit --since soon",
      "audit --since 2025-02-30",
      "audit --follow --until 1h",
      "audit --limit none",
    ]) {
      expect([args, (await admin(args)).code]).toEqual([args, 2]);
    }

    const controller = new AbortController();
    let seen = "";
    const following = admin("audit --follow --limit 2 --method UpdateUserGroup --json", {
      interrupt: controller.signal,
      onOutput: (text) => {
        seen += text;
      },
    });
    const reported = () => (seen === "" ? [] : jsonLinesIn<{ readonly userGroupId: string }>(seen));
    await waitFor("the earlier event is printed", () => reported().length === 1);
    await admin("group create b");
    await admin("group update b --name B");
    await waitFor("the new event is printed", () => reported().length === 2);
    expect(reported().map(({ userGroupId }) => userGroupId)).toEqual(["a", "b"]);
    controller.abort();
    expect((await following).code).toBe(130);
  });

  it("`events` accepts every value of `--from`, writes lines of JSON, and follows new events until Ctrl-C", async () => {
    interface Line {
      readonly cursor: string;
      readonly event?: { readonly type: string; readonly userGroupId?: string };
      readonly snapshot?: { readonly userGroups: readonly { readonly userGroupId: string }[] };
    }
    const { admin } = await newEnvironment();
    await admin("group create a");
    await admin("group update a --name secret");
    const all = await admin("events");
    const lines = jsonLinesIn<Line>(all.stdout);
    expect(lines.slice(-2).map(({ event }) => [event?.type, event?.userGroupId])).toEqual([
      ["user_group.created", "a"],
      ["user_group.updated", "a"],
    ]);
    expect(all.stdout).not.toContain("secret");
    expect(all.stderr).toMatch(/^To continue: --from \S+$/m);
    const second = lines.at(-2)?.cursor;
    expect(jsonLinesIn<Line>((await admin(`events --from ${second}`)).stdout)).toEqual(lines.slice(-1));
    expect((await admin("events --from now")).stdout).toBe("");
    const [snapshot] = jsonLinesIn<Line>((await admin("events --from snapshot")).stdout);
    expect(snapshot?.snapshot?.userGroups.map(({ userGroupId }) => userGroupId)).toEqual(["a"]);
    expect(await admin("events --from yesterday")).toMatchObject({ code: 2, stdout: "" });
    const other = await newEnvironment();
    expect(await other.admin(`events --from ${second}`)).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("EVENT_CURSOR_EXPIRED"),
    });

    const controller = new AbortController();
    let seen = "";
    const following = admin(`events --follow --from ${second}`, {
      interrupt: controller.signal,
      onOutput: (text) => {
        seen += text;
      },
    });
    const reported = () => (seen === "" ? [] : jsonLinesIn<Line>(seen).map(({ event }) => event?.type));
    await waitFor("the earlier event is printed", () => reported().length === 1);
    await admin("group delete a --yes");
    await waitFor("the new event is printed", () => reported().length === 2);
    expect(reported()).toEqual(["user_group.updated", "user_group.deleted"]);
    controller.abort();
    expect((await following).code).toBe(130);
  });

  it("`metrics` shows the calls of the last hour: of all methods, of one method, or of one environment", async () => {
    const { admin, name } = await newEnvironment();
    await admin("group get missing");
    const shown = await waitFor("there is a sample", async () => {
      const result = await root(`metrics --env ${name} --since 1h`);
      if (/USER_GROUP_NOT_FOUND=/.test(result.stdout)) return result;
      await pause(200);
      return undefined;
    });
    expect(shown.stdout).toMatch(/^END TIME +CALLS +P50 +P99 +ERRORS\n/);
    expect(shown.stdout).toMatch(new RegExp(`^${TIME} +\\d+ +[\\d.]+ms +[\\d.]+ms .*USER_GROUP_NOT_FOUND=\\d+`, "m"));
    const calls = jsonLinesIn<{ errors?: { [reason: string]: number } }>((await admin("metrics --json")).stdout);
    expect(calls.some(({ errors }) => errors?.["USER_GROUP_NOT_FOUND"] === 1)).toBe(true);
    expect((await root("metrics --method LookupUserGroup")).stdout).toMatch(/USER_GROUP_NOT_FOUND=/);
    expect(await admin("metrics --method GetUserGroup")).toMatchObject({ code: 4 });
    expect(await root(`metrics --method GetUserGroup --env ${name}`)).toMatchObject({ code: 2 });
  });
});
