import { describe, expect, it } from "vitest";
import { newApiToken } from "../domain/token.ts";
import { errorFields, openLog, terminalLine } from "./log.ts";

type Write = (fields: object, message: string) => void;

interface AnyLog {
  readonly logger: { readonly [level in "info" | "warn" | "error"]: Write };
  readonly logUnredacted: Write;
}

async function lines(secrets: readonly string[], write: (log: AnyLog) => void) {
  const written: string[] = [];
  write((await openLog({ level: "trace", secrets, write: (line) => written.push(line) })) as AnyLog);
  return written.map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("the log", () => {
  it("redacts the given secrets and all tokens, at any depth", async () => {
    const [line] = await lines(["0123456789abcdef"], ({ logger }) =>
      logger.info(
        { a: "x0123456789abcdefx", b: [{ c: "0123456789abcdef" }], d: "ugt_0123456789ABCDEF", n: 1, u: undefined },
        "ugk_0123456789ABCDEF and 0123456789abcdef",
      ),
    );
    expect(line).toMatchObject({
      a: "x[redacted]x",
      b: [{ c: "[redacted]" }],
      d: "ugt_[redacted]",
      n: 1,
      msg: "ugk_[redacted] and [redacted]",
    });
  });

  it("redacts viewer sessions and other JWTs, even if they are cut or are inside another text", async () => {
    const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
    const [head, payload] = [encoded({ alg: "ES256", typ: "viewer+jwt" }), encoded({ sub: "acme", jti: "an id" })];
    const session = `${head}.${payload}.${"s".repeat(86)}`;
    const [line] = await lines([], ({ logger }) => {
      const fields = { a: session, b: [{ c: `Bearer ${session}, and more` }], url: `/x?session=${session}&y=1` };
      logger.warn({ ...fields, cut: session.slice(0, -40), unsigned: `${head}.${payload}.` }, `no ${session}`);
    });
    expect(line).toMatchObject({
      a: "[redacted]",
      b: [{ c: "Bearer [redacted], and more" }],
      url: "/x?session=[redacted]&y=1",
      cut: "[redacted]",
      unsigned: "[redacted]",
      msg: "no [redacted]",
    });
    expect(JSON.stringify(line)).not.toContain(payload.slice(0, 8));
  });

  it("does not redact names of fields and levels, even if a secret equals such a name", async () => {
    const secrets = ["info", "level", "msg", "time", "request_id"];
    const [line] = await lines(secrets, ({ logger }) => logger.info({ request_id: "an info" }, "reported"));
    expect(line).toMatchObject({ level: "info", request_id: "an [redacted]", msg: "reported" });
    expect(Number.isNaN(Date.parse(String(line?.["time"])))).toBe(false);
  });

  it("redacts the user and password of a URL", async () => {
    const [line] = await lines([], ({ logger }) =>
      logger.error({ url: "redis://user:pa55@host:1/0" }, "no rediss://:pa55@host here, but http://host/a@b"),
    );
    expect(line).toMatchObject({ url: "redis://[redacted]@host:1/0" });
    expect(line?.["msg"]).toBe("no rediss://[redacted]@host here, but http://host/a@b");
  });

  it("writes the name and message of an error, but no other properties", async () => {
    const error = Object.assign(new TypeError("ugt_0123456789ABCDEF"), { command: { args: ["secret"] } });
    const [line] = await lines([], ({ logger }) => logger.warn({ failure: error, ...errorFields(error) }, "failed"));
    expect(line).toMatchObject({ failure: { error: "TypeError: ugt_[redacted]" }, error: "TypeError: ugt_[redacted]" });
    expect(JSON.stringify(line)).not.toContain("secret");
  });

  it("cuts a long error message without leaving a part of a credential", async () => {
    const long = new Error(`duplicate key "${"a".repeat(100_000)}" in ${"://".repeat(100_000)}`);
    const [line] = await lines([], ({ logger }) =>
      logger.warn(errorFields(Object.assign(new Error("x"), { cause: long })), ""),
    );
    expect(line).toMatchObject({ error: "Error: x", cause: "Error: duplicate key [cut]" });
    for (const secret of ["0123456789abcdef", "redis://user:0123456789@host", newApiToken()]) {
      const ends = Array.from({ length: secret.length + 2 }, (_, i) => new Error(`${"a ".repeat(504 - i)}${secret} b`));
      const shown = await lines(["0123456789abcdef"], ({ logger }) => {
        for (const error of ends) logger.warn(errorFields(error), "");
      });
      for (const { error } of shown) expect(error).not.toMatch(/0123|user|ugk_[0-9A-Za-z]/);
    }
  });

  it.each([
    ["a very long scheme", "a".repeat(100_000)],
    ["many schemes", "a://".repeat(25_000)],
    ["very long user info", `a://${"b:".repeat(50_000)}`],
    ["many prefixes of tokens", "ugt_".repeat(25_000)],
  ])("searches a text with %s for credentials in linear time", async (_, text) => {
    const before = process.cpuUsage();
    const [line] = await lines([], ({ logger }) => logger.warn({ text }, ""));
    expect(line?.["text"]).toBe(text);
    // If a pattern scanned the text again from each position, matching would take many seconds.
    expect(process.cpuUsage(before).user / 1000).toBeLessThan(2000);
  });

  it("writes credentials of `logUnredacted` without redaction", async () => {
    const [line] = await lines(["0123456789abcdef"], ({ logUnredacted }) =>
      logUnredacted({ token: "0123456789abcdef" }, "made"),
    );
    expect(line).toMatchObject({ token: "0123456789abcdef", msg: "made" });
  });
});

it("formats a log line as one line for a terminal", async () => {
  const lines: string[] = [];
  const { logger } = await openLog({ level: "info", secrets: [], write: (line) => void lines.push(line) });
  logger.warn({ failed: ["store"], request_id: "a b" }, "could not be closed");
  expect(terminalLine(lines[0] ?? "")).toMatch(
    /^\d\d:\d\d:\d\d WARN {2}could not be closed failed=\["store"\] request_id="a b"\n$/,
  );
});

it("escapes control characters for a terminal", () => {
  const line = JSON.stringify({ time: 0, level: "info", msg: "x", id: "\u001b[2J\n\r\u007f\u009b2J" });
  expect(terminalLine(line)).toMatch(/^\S+ INFO {2}x id="\\u001b\[2J\\n\\r\\u007f\\u009b2J"\n$/);
});
