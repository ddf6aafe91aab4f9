import { link, mkdir, readFile, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-node";
import { describe, expect, it } from "vitest";
import { AdminService } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { ADMIN_TOKEN, adminOf, presenting } from "../../../test/support/admin.ts";
import { sharedServer } from "../../../test/support/opened.ts";
import { newPlace } from "./support/place.ts";

const server = sharedServer();

/** Creates a client for JSON, because protobuf-es drops a leading U+FEFF from strings in binary messages. */
function readingJson() {
  const transport = createConnectTransport({ baseUrl: server.url, httpVersion: "1.1", useBinaryFormat: false });
  return createClient(AdminService, presenting(transport, ADMIN_TOKEN));
}

interface Row {
  readonly provided_id: string;
  readonly name: string;
  readonly mapping: { readonly [key: string]: unknown };
  readonly properties: object | null;
  readonly token: string;
}

const HOSTILE: readonly Row[] = [
  {
    provided_id: "plain",
    name: "Plain",
    mapping: { b: "2", a: "1", "40": "213" },
    properties: { p: 1 },
    token: "foreign.plain",
  },
  { provided_id: "no values", name: "", mapping: {}, properties: null, token: "foreign.none" },
  { provided_id: "#ugs looks like a remark", name: "#ugs", mapping: {}, properties: {}, token: "foreign.remark" },
  {
    provided_id: "\"quoted\", with 'both'",
    name: '""\n"\r\n,\r',
    mapping: { '"': ',\n"' },
    properties: { '"': [null] },
    token: "f,o\"r'eign",
  },
  {
    provided_id: "=HYPERLINK(1)",
    name: "+1-@SUM(A1)",
    mapping: { "=": "=" },
    properties: { "=a": "=b" },
    token: "=foreign.formula",
  },
  {
    provided_id: "日本\u{1f600}e\u0301é",
    name: "\ufeff\u2028 \u00a0",
    mapping: { ß: "ſ" },
    properties: { "\u{10ffff}": "\u0000\u001f" },
    token: "foreign.unicode",
  },
  {
    provided_id: "null",
    name: "true",
    mapping: { constructor: "x" },
    properties: { n: [1e-7, -0.5, 9007199254740991], e: {} },
    token: "foreign.null",
  },
  {
    provided_id: "spaces  within",
    name: "\t",
    mapping: {},
    properties: { long: 'x"\n'.repeat(13_000) },
    token: "foreign.long",
  },
];

describe.each(["jsonl", "csv"])("transfers in %s", (format) => {
  it("export and import change no byte of a group", async () => {
    const { folder, run, counts } = await newPlace(server);
    const { environment: copy, ...other } = await newPlace(server);
    const first = join(folder, "first.jsonl");
    await writeFile(first, HOSTILE.map((group) => `${JSON.stringify(group)}\n`).join(""));
    const time = new Date().toISOString();
    const imported = await run(["import", first, "--snapshot-time", time]);
    expect([imported.code, imported.stdout]).toEqual([0, expect.stringContaining("8  created")]);
    const [before, after] = [join(folder, `before.${format}`), join(folder, `after.${format}`)];
    expect(await run(["export", before, "--include-tokens"])).toMatchObject({ code: 0, stderr: "" });
    expect((await stat(before)).mode & 0o777).toBe(0o600);
    expect(await other.counts(["import", before])).toMatchObject({ created: 8, rejected: 0 });
    expect(await counts(["import", before, "--env", copy, "--verify"])).toMatchObject({ unchanged: 8, onlyHere: 0 });
    await run(["export", after, "--env", copy, "--include-tokens"]);
    const bodyOf = async (path: string) => {
      const text = await readFile(path, "utf8");
      return text.slice(text.indexOf("\n"));
    };
    expect(await bodyOf(after)).toBe(await bodyOf(before));
    expect(await bodyOf(before)).toContain("foreign.plain");
    const page = await readingJson().exportUserGroups({ environment: { name: copy }, includeTokens: true });
    const sorted = [...HOSTILE].sort((a, b) => Buffer.compare(Buffer.from(a.provided_id), Buffer.from(b.provided_id)));
    for (const [i, { provided_id, name, mapping, properties, token }] of sorted.entries()) {
      const given = { providedId: provided_id, name, mapping, token };
      expect(page.userGroups[i]).toMatchObject(given);
      expect(page.userGroups[i]?.properties ?? null).toEqual(properties);
    }
  });
});

describe.each(["jsonl", "csv"])("transfers of suspended groups in %s", (format) => {
  it("export and import copy the suspensions to another environment, and report groups that stay suspended", async () => {
    const { environment, folder, run, counts } = await newPlace(server);
    const { environment: copy, ...other } = await newPlace(server);
    const rows = [
      { provided_id: "active", token: "foreign.active" },
      { provided_id: "dark", token: "foreign.dark", expire_time: "2090-01-31T12:00:00.250Z" },
      { provided_id: "expired", token: "foreign.expired", expire_time: "2020-01-31T12:00:00Z" },
    ];
    const input = join(folder, "rows.jsonl");
    await writeFile(input, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    await run(["import", input, "--snapshot-time", new Date().toISOString()]);
    const admin = adminOf(server.url);
    const [source, target] = [{ name: environment }, { name: copy }];
    const dark = { environment: source, userGroupId: "dark", reason: 'a, "b"', message: "é" };
    const { userGroup } = await admin.suspendUserGroup(dark);
    const file = join(folder, `groups.${format}`);
    await run(["export", file, "--include-tokens"]);
    expect(await other.counts(["import", file])).toMatchObject({ created: 3, rejected: 0 });
    const copied = async (userGroupId: string) =>
      (await admin.lookupUserGroup({ environment: target, userGroupId })).userGroup;
    const { suspension, expireTime } = (await copied("dark")) ?? {};
    expect([suspension, expireTime]).toEqual([userGroup?.suspension, userGroup?.expireTime]);
    expect((await copied("expired"))?.suspension?.reason).toBe("EXPIRED");
    expect((await copied("active"))?.suspension).toBeUndefined();
    const verify = ["import", file, "--env", copy, "--verify"];
    expect(await counts(verify)).toMatchObject({ unchanged: 3, suspended: 0 });
    await admin.resumeUserGroup({ environment: source, userGroupId: "dark" });
    await run(["export", file, "--include-tokens", "--force"]);
    expect(await counts(verify)).toMatchObject({ unchanged: 2, suspended: 1 });
    const again = await run(["import", file, "--env", copy, "--upsert"]);
    expect([again.code, again.stdout]).toEqual([0, expect.stringContaining("1  stayed SUSPENDED")]);
    expect((await copied("dark"))?.suspension).toEqual(userGroup?.suspension);
  });

  it("ugs import rejects groups with an invalid expiry time or suspension, and imports the other groups", async () => {
    const { folder, run } = await newPlace(server);
    const file = join(folder, "groups.jsonl");
    const rows = [
      { provided_id: "a", expire_time: "NaN" },
      { provided_id: "b", expire_time: 7 },
      { provided_id: "c", suspension: "yes" },
      { provided_id: "d", suspension: { reason: 7 } },
      { provided_id: "e", suspension: { reason: "x".repeat(257) } },
      { provided_id: "f", suspension: {} },
    ];
    await writeFile(file, rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    const { code, stdout } = await run(["import", file]);
    expect([code, stdout]).toEqual([7, expect.stringMatching(/1 {2}created\n(?:.*\n)*.*5 {2}rejected/)]);
    const reasons = (await readFile(join(folder, "groups.rejects.jsonl"), "utf8")).match(/^#ugs line .*$/gm);
    expect(reasons).toEqual([
      expect.stringMatching(/^#ugs line 1: expire_time: must be a time/),
      expect.stringMatching(/^#ugs line 2: expire_time: must be a time/),
      expect.stringMatching(/^#ugs line 3: suspension: must be an object/),
      expect.stringMatching(/^#ugs line 4: suspension: must be an object/),
      expect.stringMatching(/^#ugs line 5: VALIDATION_FAILED: suspension.reason: /),
    ]);
  });
});

describe("ugs import", () => {
  it("writes rejected groups with the reasons to a file that a user can correct and import", async () => {
    const { folder, run, counts } = await newPlace(server);
    const file = join(folder, "groups.jsonl");
    const lines = [
      '\ufeff{"snapshot_time":"2026-01-31T08:00:00Z"}',
      '{"provided_id":"a","token":"foreign.token.a"}\r',
      "",
      '{"provided_id":"b", foreign.token.b',
      '{"provided_id":"a"}',
      '{"provided_id":"c","colour":"red"}',
      '["d"]',
      '{"provided_id":7}',
      '{"name":"nobody"}',
      `{"provided_id":"e","name":"${"e".repeat(257)}"}`,
      '{"provided_id":"f","token":"short"}',
      '{"provided_id":"g","properties":{"a":{"__proto__":1}}}',
      '{"provided_id":"h\\ud800"}',
      `{"provided_id":"i","properties":${"[".repeat(40)}${"]".repeat(40)}}`,
      `{"provided_id":"j","properties":{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}}`,
      `{"provided_id":"k","properties":{"a":"${"k".repeat(70_000)}"}}`,
      `{"provided_id":"${"l".repeat(5_000_000)}"}`,
      '{"provided_id":"m","token":"foreign.token.a"}',
      '{"provided_id":"n"}',
    ];
    const bytes = Buffer.from(lines.join("\n").replace('"n"', '"n\u00ff"'));
    // Makes the last line invalid UTF-8.
    bytes[bytes.indexOf(0xc3)] = 0xff;
    await writeFile(file, bytes);
    const { code, stdout, stderr } = await run(["import", file]);
    expect(stdout).toContain(" 1  created");
    expect(stdout).toContain("16  rejected");
    expect(code).toBe(7);
    expect(stderr).toBe("ugs: 16 groups were rejected\n");
    const rejects = join(folder, "groups.rejects.jsonl");
    expect((await stat(rejects)).mode & 0o777).toBe(0o600);
    const text = await readFile(rejects, "latin1");
    const reasons = [...text.matchAll(/^#ugs line (\d+): (.*)$/gm)].map(([, line, reason]) => `${line} ${reason}`);
    expect(reasons).toEqual([
      "4 is not JSON",
      "5 provided_id: an earlier group has this id",
      '6 has an unknown field "colour"',
      "7 is not a JSON object",
      "8 provided_id: must be a string",
      "9 provided_id: is missing",
      expect.stringMatching(/^10 VALIDATION_FAILED: name: /),
      expect.stringMatching(/^11 VALIDATION_FAILED: token: /),
      "12 has a key __proto__, which cannot be sent",
      "13 has half of a surrogate pair",
      "14 properties: must not be nested deeper than 32 levels",
      "15 properties: must not be nested deeper than 32 levels",
      expect.stringMatching(/^16 VALIDATION_FAILED: properties: /),
      "17 is longer than 4 MiB, so its content is omitted",
      expect.stringMatching(/^18 (VALIDATION_FAILED: token: |TOKEN_TAKEN)/),
      "19 is not UTF-8",
    ]);
    const mended = text
      .split("\n")
      .filter((line) => !/^#ugs line 1[24567]/.test(line) && /^\{"snap|^#ugs line|"colour"|"e"|"m"/.test(line))
      .map((line) =>
        line
          .replace(',"colour":"red"', "")
          .replace(/e{200,}/, "E")
          .replace("token.a", "token.m"),
      );
    await writeFile(rejects, mended.join("\n"));
    expect(await counts(["import", rejects])).toMatchObject({ created: 3, rejected: 0 });
    expect(await counts(["import", file, "--max-rejects", "30"])).toMatchObject({
      unchanged: 1,
      rejected: 16,
    });
    // The last import has renamed the rejects file of the earlier import.
    expect(await readFile(`${rejects}.old`, "utf8")).toContain("token.m");
  });

  it("continues after lines that are not CSV", async () => {
    const { environment, folder, counts } = await newPlace(server);
    const file = join(folder, "groups.csv");
    const rows = [
      "\ufeffprovided_id,name,properties\r",
      "a,A,\r",
      'b,5" pipe,',
      "c,C",
      'd,D,"{""p"": 1}"',
      'e,"two\r\nlines",',
      'f,F,"{not json}"',
      'g,"never closed,',
      "h,H,",
      ",,",
      'i,"",',
    ];
    await writeFile(file, rows.join("\n"));
    expect(await counts(["import", file])).toMatchObject({ created: 5, rejected: 5 });
    const text = await readFile(join(folder, "groups.rejects.csv"), "utf8");
    expect(text.split("\n").filter((line) => !line.startsWith("#"))).toEqual([
      ...["provided_id,name,properties", 'b,5" pipe,', "c,C", 'f,F,"{not json}"', 'g,"never closed,', ",,", ""],
    ]);
    expect([...text.matchAll(/^#ugs line (\d+): (.*)$/gm)].map(([, line]) => line)).toEqual(["3", "4", "8", "9", "11"]);
    const { userGroups } = await adminOf(server.url).exportUserGroups({ environment: { name: environment } });
    expect(userGroups.map(({ providedId, name }) => [providedId, name])).toEqual([
      ...[
        ["a", "A"],
        ["d", "D"],
        ["e", "two\r\nlines"],
        ["h", "H"],
        ["i", ""],
      ],
    ]);
    expect(userGroups[1]?.properties).toEqual({ p: 1 });
  });
});

describe("ugs import", () => {
  it("resumes only with the same file and options, or starts again with --restart", async () => {
    const { folder, run, counts } = await newPlace(server);
    const file = join(folder, "groups.jsonl");
    await writeFile(file, '{"provided_id":"a"}\nnone\n');
    const again = (...args: string[]) => run(["import", file, ...args]);
    const stopped = await again("--max-rejects", "0");
    expect([stopped.code, stopped.stderr]).toEqual([7, expect.stringContaining("1 group was rejected, more than 0")]);
    const other = await again("--upsert");
    expect([other.code, other.stderr]).toEqual([2, expect.stringContaining("with other options")]);
    await writeFile(file, '{"provided_id":"a"}\n{"provided_id":"b"}\n');
    const changed = await again();
    expect([changed.code, changed.stderr]).toEqual([
      2,
      expect.stringMatching(
        /of another version of the input file\n {2}give --restart to start again; a restarted import creates no group twice/,
      ),
    ]);
    expect(await counts(["import", file, "--restart"])).toMatchObject({ created: 1, unchanged: 1 });
  });

  it.each([
    [
      "has a token but no snapshot time",
      "x.jsonl",
      '{"provided_id":"a","token":"foreign.1"}\n',
      /\n {2}give --snapshot-time/,
    ],
    [
      "has a day that does not exist",
      "x.jsonl",
      '{"snapshot_time":"2025-02-30T08:00:00Z"}\n{"provided_id":"a"}\n',
      /the snapshot_time in the first line/,
    ],
    ["has an unknown column", "x.csv", "provided_id,propertis\na,b\n", /unknown columns: "propertis"/],
    [
      "has semicolons instead of commas",
      "x.csv",
      "provided_id;name\na;b\n",
      /no column provided_id: provided_id;name\n.*separated by commas/,
    ],
    [
      "has an invisible character in a column name",
      "x.csv",
      "provided\u200b_id,name\na,b\n",
      /no column provided_id: provided\\u200b_id,/,
    ],
    [
      "is CSV without a heading",
      "x.csv",
      "acme,Acme Corporation,{},{},foreign-token-0123456789\n",
      // The message hides the token.
      /no column provided_id: acme,Acme Corporation,\{\},\{\},foreign-…\n/,
    ],
    ["does not exist", "/nowhere.csv", "", /no such file/],
  ])("fails and explains the cause if the input %s", async (_, name, text, words) => {
    const { folder, run } = await newPlace(server);
    const file = name.startsWith("/") ? name : join(folder, name);
    if (text !== "") await writeFile(file, text);
    const { code, stderr } = await run(["import", file]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(words)]);
  });

  it("reads standard input, and ugs export replaces an existing file only with --force", async () => {
    const { folder, run, counts } = await newPlace(server);
    expect(await counts(["import", "-"], { input: "provided_id\na\nb\n" })).toMatchObject({ created: 2 });
    const { stdout } = await run(["export", "--prefix", "b"]);
    const [, row = "", ...rest] = stdout.split("\n");
    expect(JSON.parse(row)).toMatchObject({ provided_id: "b", name: "b", mapping: {}, properties: null });
    expect(rest).toEqual([""]);
    const file = join(folder, "there.jsonl");
    await writeFile(file, "");
    const refused = await run(["export", file]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining("--force")]);
    expect((await run(["export", file, "--force"])).code).toBe(0);
  });

  it("does not overwrite a directory, a device, a link's target or a changed rejects file", async () => {
    const { folder, run } = await newPlace(server);
    const file = join(folder, "groups.csv");
    await writeFile(file, "provided_id\na\n\u0007\n");
    await mkdir(join(folder, "rejects"));
    for (const there of [join(folder, "rejects"), "/dev/null"]) {
      const { code, stderr } = await run(["import", file, "--dry-run", "--rejects", there]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(`${there} is not a regular file`)]);
    }
    expect((await stat(join(folder, "rejects"))).isDirectory()).toBe(true);
    expect((await run(["import", file, "--max-rejects", "0"])).code).toBe(7);
    await writeFile(join(folder, "groups.rejects.csv"), "");
    const shorter = await run(["import", file]);
    expect([shorter.code, shorter.stderr]).toEqual([
      2,
      expect.stringMatching(/shorter than at the end of the unfinished run\n {2}give --restart/),
    ]);

    await writeFile(join(folder, "other"), "other");
    await symlink(join(folder, "other"), join(folder, "linked.part"));
    await link(join(folder, "other"), join(folder, "same.part"));
    for (const name of ["linked", "same"]) {
      expect((await run(["export", join(folder, name)])).code).toBe(0);
      expect(await readFile(join(folder, name), "utf8")).toContain("provided_id");
    }
    expect(await readFile(join(folder, "other"), "utf8")).toBe("other");
  });
});
