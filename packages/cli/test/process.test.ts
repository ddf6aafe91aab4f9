import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { newFolder, newListener } from "@user-group-service/testing/opened";
import { waitFor } from "@user-group-service/testing/wait";
import { beforeAll, describe, expect, it } from "vitest";
import { ImportMode } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ADMIN_TOKEN, adminOf } from "../../../test/support/admin.ts";
import { sharedServer } from "../../../test/support/opened.ts";
import { newTerminal } from "../../../test/support/terminal.ts";
import { asRoot, linesIn, runProgram, startUgs, UGS, ugsBuilt } from "./support/ugs.ts";

const ESCAPE = "\u001b";

describe("the built ugs", () => {
  const server = sharedServer();
  const env = () => ({ ...asRoot(server), UGS_ENV: server.environment });

  beforeAll(async () => {
    // The output of `ugs group list` must exceed the buffer of a pipe.
    const userGroups = Array.from({ length: 300 }, (_, i) => ({
      providedId: `group-${String(i).padStart(4, "0")}`,
      name: `\u6f22${ESCAPE}[31m${"long ".repeat(50)}`,
    }));
    const request = { environment: { name: server.environment }, userGroups, mode: ImportMode.CREATE_ONLY };
    await adminOf(server.url).importUserGroups(request);
  });

  /** Runs a bash command line, in which `ugs` is the built program. */
  function bash(command: string) {
    const functions = `ugs() { '${process.execPath}' '${UGS}' "$@"; }; set -o pipefail; `;
    return runProgram(["bash", "--norc", "-c", functions + command], { env: env() });
  }

  it("ugs exits with 0 and without a message when the reader of its output closes the pipe", async () => {
    const { code, stdout, stderr } = await bash("ugs group list | head -n 2");
    expect(stdout.split("\n")).toHaveLength(3);
    expect([code, stderr]).toEqual([0, ""]);
    const whole = await bash("ugs group list | cat");
    expect(linesIn(whole.stdout)).toHaveLength(301);
  });

  it("ugs explains what to do if it cannot write a new token to standard output", async () => {
    const { code, stderr } = await bash("ugs token create --role read --name lost > /dev/full");
    expect([code, stderr]).toEqual([1, expect.stringMatching(/ENOSPC.*is lost\n {2}run: ugs token rotate \w+/)]);
    // The group exists, so no token is lost: `group create` shows the token again.
    const shown = await bash(
      `unset UGS_ENV; UGS_TOKEN=${server.tokens.customer} ugs group create group-0001 > /dev/full`,
    );
    expect([shown.code, shown.stderr]).toEqual([1, expect.stringMatching(/\(ENOSPC\).*is lost\n {2}run/)]);
    expect(shown.stderr).not.toMatch(/was made/);
    const exported = await bash("ugs export > /dev/full");
    expect(exported).toMatchObject({
      code: 2,
      stderr: expect.stringMatching(/standard output: .*\(ENOSPC\)/),
    });
    // This loop ends when the reader has closed the pipe.
    const waiting = "trap '' PIPE; while echo; do sleep 0.01; done 2> /dev/null";
    const closed = await bash(`{ ${waiting}; ugs token create --role read --name lost; } | true`);
    expect([closed.code, closed.stderr]).toEqual([1, expect.stringMatching(/is lost\n {2}run: ugs token rotate/)]);
  });

  it("writes only the token to standard output, so that a shell can store the token", async () => {
    const file = join(newFolder(), "token");
    const { code, stdout } = await bash(
      `umask 077; ugs token create --role manage --name x > ${file} && UGS_TOKEN= UGS_ENV= ugs whoami --token-file ${file}`,
    );
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^role +manage$/m)]);
    expect(readFileSync(file, "utf8")).toMatch(/^ugk_\w{40}\n$/);
  });

  it("exits with 130 at Ctrl-C during a call", async () => {
    const silent = createServer(() => {});
    const url = await newListener(silent);
    const connected = once(silent, "connection");
    const calling = startUgs(["ping", "--timeout", "5m", "--url", url], {});
    await connected;
    calling.signal("SIGINT");
    expect([await calling.exited(), calling.output()]).toEqual([130, "ugs: interrupted\n"]);
  });

  describe("on a terminal", () => {
    const terminal = (args: string, given: { readonly [name: string]: string } = {}) =>
      newTerminal(`${UGS} ${args}`, { env: { XDG_CONFIG_HOME: newFolder(), ...given } });

    it("login prompts the user for URL and token, and does not show the token", async () => {
      const session = terminal("login");
      await waitFor("login prompts for the URL", () => session.screen().includes("URL of the service: "));
      session.type(`${server.url}\r`);
      await waitFor("login prompts for the token", () => session.screen().includes("(not shown): "));
      session.type(`${ADMIN_TOKEN}\r`);
      expect(await session.exited()).toBe(0);
      expect(session.screen()).toMatch(/^role +root$/m);
      expect(session.screen()).not.toContain(ADMIN_TOKEN.slice(5, 12));
      expect(session.screen()).not.toContain("*");
    });

    it("truncates tables at the terminal's width, escapes control characters, and respects NO_COLOR", async () => {
      const bold = terminal("group list --limit 3", env());
      const plain = terminal("group list --limit 3", { ...env(), NO_COLOR: "1" });
      expect([await bold.exited(), await plain.exited()]).toEqual([0, 0]);
      expect(bold.screen()).toContain(`${ESCAPE}[1mGROUP`);
      expect(plain.screen()).not.toContain(ESCAPE);
      const lines = linesIn(plain.screen());
      expect(lines).toHaveLength(4);
      // `length` counts the Han character as 1, although it takes two cells.
      for (const line of lines) expect(line.length).toBeLessThan(80);
      expect(lines[1]).toMatch(/^group-0000 +\u6f22\\x1b\[3.*\u2026.*long +active +never +20/);
    });

    it("warns that a shown token stays in the scrollback of the terminal", async () => {
      const session = terminal("token create --role read --name shown", env());
      expect(await session.exited()).toBe(0);
      expect(session.screen()).toMatch(/cannot be shown again. The secret:\nugk_\w{40}\nThe scrollback/);
    });

    it("deletes nothing if the user presses Ctrl-C instead of typing the id", async () => {
      const session = terminal("group delete group-0007", env());
      await waitFor("ugs prompts for the id", () => session.screen().includes("To continue, type group-0007: "));
      session.type("\u0003");
      expect(await session.exited()).toBe(130);
      expect(session.screen()).toContain("interrupted");
      expect((await ugsBuilt(["group", "get", "group-0007"], { env: env() })).code).toBe(0);
    });
  });
});
