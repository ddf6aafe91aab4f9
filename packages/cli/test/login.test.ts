import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { describe, expect, it } from "vitest";
import { ADMIN_TOKEN } from "../../../test/support/admin.ts";
import { sharedServer } from "../../../test/support/opened.ts";
import { ugs } from "./support/ugs.ts";

describe("profiles", () => {
  const server = sharedServer();

  function newUser() {
    const config = newFolder();
    const run = (args: string, input = "", env: { readonly [name: string]: string } = {}) =>
      ugs(args.split(" "), { env: { XDG_CONFIG_HOME: config, ...env }, input });
    return { run, fileOf: (name: string) => join(config, "ugs/profiles", `${name}.json`), config };
  }

  it("login stores a profile that only its owner can read, after the service has accepted the token", async () => {
    const { run, fileOf, config } = newUser();
    const kept = await run(`login --url ${server.url}`, `${ADMIN_TOKEN}\n`);
    expect(kept.code).toBe(0);
    expect(kept.stdout).toMatch(/^profile +default\n.*^role +root$/ms);
    expect(kept.stdout + kept.stderr).not.toContain(ADMIN_TOKEN);
    expect(statSync(fileOf("default")).mode & 0o777).toBe(0o600);
    expect(statSync(join(config, "ugs/profiles")).mode & 0o777).toBe(0o700);
    expect((await run("whoami")).stdout).toMatch(/^role +root$/m);
    const before = readFileSync(fileOf("default"), "utf8");
    const refused = await run("login", "not-a-token-of-the-service");
    expect(refused.code).toBe(4);
    expect(readFileSync(fileOf("default"), "utf8")).toBe(before);
    expect(readdirSync(join(config, "ugs/profiles"))).toEqual(["default.json"]);
  });

  it("`--profile`, UGS_PROFILE and `profile use` select a profile, and `logout` removes a profile", async () => {
    const { run, fileOf } = newUser();
    await run(`login --url ${server.url}`, ADMIN_TOKEN);
    await run(`login --url ${server.url} --profile customer`, server.tokens.customer);
    const role = async (args = "", env = {}) =>
      /^role +(\w+)$/m.exec((await run(`whoami${args}`, "", env)).stdout)?.[1];
    expect(await role()).toBe("manage");
    expect(await role(" --profile default")).toBe("root");
    expect(await role("", { UGS_PROFILE: "default" })).toBe("root");
    expect(await role("", { UGS_TOKEN: ADMIN_TOKEN })).toBe("root");
    expect(await run("profile use default")).toMatchObject({ code: 0 });
    expect(await role()).toBe("root");
    expect((await run("profile list")).stdout).toMatch(/^customer +http.* no\ndefault +http.* yes$/m);
    expect(await run("profile use none")).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("ugs profile list"),
    });
    expect(await run("logout --profile customer")).toMatchObject({ code: 0 });
    expect(existsSync(fileOf("customer"))).toBe(false);
    expect(await run("logout --profile customer")).toMatchObject({ code: 2 });
    expect(await run("whoami --profile customer")).toMatchObject({ code: 2 });
  });

  it("login prompts the user before it replaces the token or URL of a profile", async () => {
    const { run, fileOf, config } = newUser();
    await run(`login --url ${server.url}`, ADMIN_TOKEN);
    const before = readFileSync(fileOf("default"), "utf8");
    // If the profile already has this token and URL, `login` replaces nothing, and does not prompt.
    expect((await run(`login --url ${server.url}`, ADMIN_TOKEN)).code).toBe(0);
    const unasked = await run("login", server.tokens.customer);
    expect([unasked.code, unasked.stderr]).toEqual([
      2,
      expect.stringMatching(/the profile default.*\n {2}to confirm without a terminal, give --yes/),
    ]);
    const env = { XDG_CONFIG_HOME: config, UGS_TOKEN: server.tokens.customer };
    const refused = await ugs(["login"], { env, keys: "no\r" });
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining(`This replaces the profile default (${server.url}/), and deletes its token`),
    ]);
    expect(readFileSync(fileOf("default"), "utf8")).toBe(before);
    expect((await ugs(["login"], { env, keys: "default\r" })).code).toBe(0);
    expect((await run("whoami")).stdout).toMatch(/^role +manage$/m);
    expect((await run("login --yes", ADMIN_TOKEN)).code).toBe(0);
    expect((await run("whoami")).stdout).toMatch(/^role +root$/m);
  });

  it("ugs sends the token of a profile only to the service of the profile", async () => {
    const { run } = newUser();
    await run(`login --url ${server.url}`, ADMIN_TOKEN);
    const other = await run("whoami --url http://127.0.0.1:1");
    expect([other.code, other.stderr]).toEqual([
      2,
      expect.stringContaining("does not send its token to http://127.0.0.1:1"),
    ]);
    expect((await run(`whoami --url ${server.url}/`)).code).toBe(0);
  });

  it("ugs rejects a profile that is malformed or readable by other users, and explains what to do", async () => {
    const { run, fileOf } = newUser();
    await run(`login --url ${server.url}`, ADMIN_TOKEN);
    const file = fileOf("default");
    chmodSync(file, 0o640);
    const shared = await run("whoami");
    expect([shared.code, shared.stderr]).toEqual([2, expect.stringContaining(`run: chmod 600 ${file}`)]);
    chmodSync(file, 0o600);
    for (const text of ["", "{", "null", "[]", '{"url":1,"token":"x"}', '{"url":"http://x"}']) {
      writeFileSync(file, text);
      const broken = await run("whoami");
      expect([broken.code, broken.stderr]).toEqual([2, expect.stringContaining("run: ugs login --profile default")]);
    }
    expect((await run("profile list")).stdout).toContain("log in again");
    expect(await run(`login --url ${server.url}`, ADMIN_TOKEN)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining("give --yes"),
    });
    expect((await run(`login --url ${server.url} --yes`, ADMIN_TOKEN)).code).toBe(0);
    expect((await run("whoami")).code).toBe(0);
  });

  it("if ugs cannot read the name of the current profile, ugs fails and does not use the default profile instead", async () => {
    const { run, config } = newUser();
    await run(`login --url ${server.url}`, ADMIN_TOKEN);
    const current = join(config, "ugs/profile");
    // Tests may run as root, who can read every file. A directory in place of the file is unreadable even for root.
    rmSync(current);
    mkdirSync(current);
    for (const args of ["whoami", "profile list", `whoami --url ${server.url}`, `login --url ${server.url}`]) {
      const { code, stderr } = await run(args);
      expect([args, code, stderr]).toEqual([args, 2, expect.stringContaining(`cannot read ${current}`)]);
    }
    expect((await run("whoami --profile default")).code).toBe(0);
  });

  it("ugs needs no profile if the command line and the environment contain the URL and the token", async () => {
    const { run, config } = newUser();
    // Tests may run as root, who can read every folder. A link to itself is unreadable even for root.
    symlinkSync("ugs", join(config, "ugs"));
    const token = { UGS_TOKEN: ADMIN_TOKEN };
    const refused = await run("whoami", "", token);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("cannot read")]);
    expect((await run(`whoami --url ${server.url} --profile default`, "", token)).code).toBe(2);
    expect((await run(`whoami --url ${server.url}`, "", token)).code).toBe(0);
    expect((await run(`whoami --url ${server.url}`)).stderr).toContain("cannot read");
  });

  it("login requires a valid URL and token", async () => {
    const { run, config } = newUser();
    for (const [args, input, words] of [
      ["login", ADMIN_TOKEN, "ugs login --url URL"],
      [`login --url ${server.url}`, "", "is empty"],
      [`login --url ${server.url}`, "two words", "contains spaces"],
      [`login --url ${server.url} --token-file /nowhere`, "", "no such file"],
      [`login --url ${server.url} --profile a/b`, ADMIN_TOKEN, "the name of a profile has"],
    ] as const) {
      const { code, stderr } = await run(args, input);
      expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
    }
    expect(existsSync(join(config, "ugs"))).toBe(false);
    writeFileSync(join(config, "ugs"), "in the way");
    const full = await run(`login --url ${server.url}`, ADMIN_TOKEN);
    expect([full.code, full.stderr]).toEqual([2, expect.stringContaining("nothing was changed")]);
  });

  it("ugs without arguments shows the profile and the next step", async () => {
    const { run, config } = newUser();
    const alone = () => ugs([], { env: { XDG_CONFIG_HOME: config } });
    expect(await alone()).toMatchObject({ code: 0, stdout: expect.stringContaining("ugs login --url") });
    await run(`login --url ${server.url}`, ADMIN_TOKEN);
    expect((await alone()).stdout).toContain(`${server.url} (profile default)`);
  });
});
