import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { newFolder } from "@user-group-service/testing/opened";
import { expect, it } from "vitest";
import { linesIn, ugs } from "./support/ugs.ts";

it.each([
  [["viewer", "session", ""], "create revoke"],
  [["--url", "http://127.0.0.1:1", "token", "re"], "revoke"],
  [["-e", "group", "token", "up"], "update"],
  [["signing-key", "rotate", "--end"], "--end-sessions"],
  [["audit", "--fol"], "--follow"],
  [["audit", "--js"], "--json"],
  [["token", "create", "--role", ""], "resolve read manage admin"],
  [["token", "create", "--role=re"], "--role=resolve --role=read"],
  [["completion", ""], "bash zsh fish"],
  [["completion", "bash", ""], ""],
  [["group", "update", "acme", "--clear", "n"], "name"],
  [["profile", "use", ""], "production testing"],
  [["group", "list", "--profile", "t"], "testing"],
  [["group", "get", "--token-file", ""], ""],
  [["group", "get", "$(touch x)", "--env"], "--env"],
])("ugs complete completes %j with: %s", async (words, offered) => {
  const config = newFolder();
  mkdirSync(join(config, "ugs/profiles"), { recursive: true });
  for (const name of ["production", "testing"]) symlinkSync("/nowhere", join(config, `ugs/profiles/${name}.json`));
  const { code, stdout } = await ugs(["complete", "--", ...words], { env: { XDG_CONFIG_HOME: config } });
  expect(code).toBe(0);
  expect(linesIn(stdout).map((line) => line.split("\t")[0])).toEqual(offered.split(" "));
});
