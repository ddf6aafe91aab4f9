import { describe, expect, it } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { SETTINGS } from "../config/settings.ts";
import { RecordUnreadable } from "../domain/errors.ts";
import { answerTo, explainStartFailure } from "./start-messages.ts";

describe("command-line arguments", () => {
  it("a command line without arguments starts the service", () => {
    expect(answerTo([])).toBeUndefined();
  });

  it.each(["--help", "-h"])("a command line with %s lists every setting", (arg) => {
    const { text = "", exitCode } = answerTo([arg]) ?? {};
    const lines = text.split("\n");
    const listed: string[][] = [];
    for (const line of lines.slice(lines.findIndex((each) => each.startsWith("  HOST ")))) {
      const row = /^ {2}([A-Z_]+) {2,}(\S*) {2,}(\S.*)$/.exec(line)?.slice(1);
      if (row) listed.push(row);
      else listed.at(-1)?.push(line.trim());
    }
    const rows = listed.map(([name, byDefault, ...words]) => [name, byDefault, words.join(" ")]);
    const plain = (text: string) => text.replaceAll("`", "").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
    expect(rows).toEqual(
      Object.entries(SETTINGS).map(([name, [, , description, byDefault = ""]]) => [
        name,
        byDefault,
        plain(description),
      ]),
    );
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(150);
    expect(text).toMatch(/serves the console at/);
    expect(exitCode).toBe(0);
  });

  it.each(["--version", "-v"])("a command line with %s prints the version", (arg) => {
    expect(answerTo([arg])).toEqual({ text: packageJson.version, exitCode: 0 });
  });

  it.each([
    [["--port", "80"], "argument 1 (--port) is unknown"],
    [["8080"], "argument 1 is unknown"],
    [[""], "argument 1 is unknown"],
    [["--"], "argument 1 (--) is unknown"],
    [["start"], "argument 1 (start) is unknown"],
    [["--version=1"], "argument 1 (--version) is unknown"],
    [["--help", "me"], "argument 2 (me) is unknown"],
    [["ADMIN_TOKEN=0123456789abcdef"], "argument 1 (ADMIN_TOKEN) is unknown"],
    [["ugk_0123456789"], "argument 1 (ugk_) is unknown"],
  ])(
    "a command line with the arguments %j is rejected, and the message does not quote a value that may be secret",
    (args, start) => {
      const { text = "", exitCode } = answerTo(args) ?? {};
      expect(text.slice(0, text.indexOf(":"))).toBe(start);
      expect(exitCode).toBe(2);
    },
  );
});

it("names the faulty record and REDIS_URL if Redis has a record of another program", () => {
  const text = explainStartFailure(new RecordUnreadable(new Error("ug:env:acme/ holds no usable number")));
  expect(text).toMatch(/^cannot use Redis: ug:env:acme\/ holds no usable number; check that REDIS_URL .*/);
});
