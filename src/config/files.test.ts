import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, inject, it, onTestFinished } from "vitest";
import { type Config, ConfigError, type Environ, loadConfig } from "./config.ts";
import { FileReader } from "./file-reader.ts";
import { SettingFiles } from "./files.ts";
import type { FileSetting } from "./settings.ts";

const certificates = inject("certificates");
const { cert: CERT, key: KEY } = certificates.server;
const { cert: OTHER_CERT, key: OTHER_KEY } = certificates.client;

const TOKENS = "a=0123456789abcdef\nb=fedcba9876543210\n";

/** Creates files of settings in a new folder. `state` has the settings in use and the calls of the listener. */
async function watched(
  texts: { readonly [setting in FileSetting]?: string },
  environ: Environ = {},
  reader = new FileReader(),
) {
  const folder = mkdtempSync(join(tmpdir(), "ugs-files-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const pathOf = (setting: string) => join(folder, setting);
  for (const [setting, text] of Object.entries(texts)) writeFileSync(pathOf(setting), text);
  const paths = Object.fromEntries(Object.keys(texts).map((setting) => [setting, pathOf(setting)]));
  const state = {
    used: await loadConfig({ ...paths, ...environ }),
    reports: [] as string[],
    refusal: undefined as Error | undefined,
    tries: 0,
  };
  const listener: ConstructorParameters<typeof SettingFiles>[1] = {
    async use(config: Config) {
      state.tries += 1;
      if (state.refusal) throw state.refusal;
      state.used = config;
    },
    onResult: (changed, error) => {
      const fault =
        error instanceof ConfigError ? error.faults.join("; ") : error === undefined ? "used" : String(error);
      state.reports.push(`${[...changed].join("+")}: ${fault}`);
    },
  };
  const files = new SettingFiles(state.used, listener, reader);
  const poll = async (times = 2) => {
    for (let i = 0; i < times; i++) await files.readAll();
  };
  return { folder, pathOf, state, poll, tokens: () => state.used.apiTokens.map(({ token }) => token) };
}

describe("the files of settings", () => {
  it("a file is not applied again if a program writes the same content again", async () => {
    const { pathOf, state, poll } = await watched({ API_TOKENS_FILE: TOKENS });
    await poll();
    writeFileSync(pathOf("API_TOKENS_FILE"), TOKENS);
    await poll();
    expect(state.reports).toEqual([]);
  });

  it("a file is applied after two equal reads if a new file replaces the old file", async () => {
    const { pathOf, state, poll, tokens } = await watched({ API_TOKENS_FILE: TOKENS });
    writeFileSync(pathOf("new"), "c=00000000000000000\n");
    renameSync(pathOf("new"), pathOf("API_TOKENS_FILE"));
    await poll(1);
    expect(tokens()).toHaveLength(2);
    await poll(1);
    expect(tokens()).toEqual(["00000000000000000"]);
    expect(state.reports).toEqual(["API_TOKENS_FILE: used"]);
  });

  it("a file is read again if the symbolic link to its folder changes, as in Kubernetes", async () => {
    const { folder, poll, tokens } = await watched({});
    const version = (name: string, text: string) => {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, "tokens"), text);
      symlinkSync(name, join(folder, "..data_tmp"));
      renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
    };
    version("..2026_01", TOKENS);
    symlinkSync("..data/tokens", join(folder, "tokens"));
    const mounted = await watched({}, { API_TOKENS_FILE: join(folder, "tokens") });
    version("..2026_02", "c=00000000000000000");
    rmSync(join(folder, "..2026_01"), { recursive: true });
    await mounted.poll();
    expect(mounted.tokens()).toEqual(["00000000000000000"]);
    await poll();
    expect(tokens()).toEqual([]);
  });

  it("a file is not applied while a program writes it", async () => {
    const { pathOf, state, poll, tokens } = await watched({ API_TOKENS_FILE: TOKENS });
    const next = "c=0000000000000000000000\nd=1111111111111111111111\n";
    for (const length of [0, 18, 20, 40]) {
      writeFileSync(pathOf("API_TOKENS_FILE"), next.slice(0, length));
      await poll(1);
    }
    expect([tokens(), state.reports]).toEqual([["0123456789abcdef", "fedcba9876543210"], []]);
    writeFileSync(pathOf("API_TOKENS_FILE"), next);
    await poll();
    expect(tokens()).toEqual(["0000000000000000000000", "1111111111111111111111"]);
  });

  it("the last valid content stays in use if a file is deleted, empty or invalid, and each fault is reported once", async () => {
    const { pathOf, state, poll, tokens } = await watched({ API_TOKENS_FILE: TOKENS });
    const path = pathOf("API_TOKENS_FILE");
    rmSync(path);
    await poll(5);
    writeFileSync(path, "");
    await poll(5);
    for (const bad of ["a=short", "a=too-short", "a=short"]) {
      writeFileSync(path, bad);
      await poll(5);
    }
    expect(tokens()).toHaveLength(2);
    expect(state.reports).toEqual([
      `API_TOKENS_FILE: API_TOKENS_FILE cannot be read: ENOENT at ${path}`,
      expect.stringMatching(/empty.*none/),
      ...Array.from({ length: 3 }, () => expect.stringMatching(/entry 1 needs a token of 16/)),
    ]);
    writeFileSync(path, TOKENS);
    await poll();
    expect(state.reports.slice(5)).toEqual(["API_TOKENS_FILE: used"]);
  });

  it("a file that contains only `none` removes all tokens", async () => {
    const root = "0123456789abcdef-root";
    const { pathOf, poll, tokens } = await watched({ API_TOKENS_FILE: TOKENS, ADMIN_TOKEN_FILE: root });
    writeFileSync(pathOf("API_TOKENS_FILE"), "none\n");
    await poll();
    expect(tokens()).toEqual([]);
    writeFileSync(pathOf("API_TOKENS_FILE"), "none\na=0123456789abcdef");
    await poll();
    expect(tokens()).toEqual([]);
  });

  it("the TLS files are applied only if certificate and key match, regardless of which file changes first", async () => {
    const { pathOf, state, poll } = await watched({ TLS_CERT_FILE: CERT, TLS_KEY_FILE: KEY });
    const steps: [FileSetting, string][] = [
      ["TLS_KEY_FILE", OTHER_KEY],
      ["TLS_CERT_FILE", OTHER_CERT],
      ["TLS_CERT_FILE", CERT],
      ["TLS_KEY_FILE", KEY],
    ];
    const used: boolean[] = [];
    for (const [setting, text] of steps) {
      writeFileSync(pathOf(setting), text);
      await poll();
      used.push(state.used.tls?.key === OTHER_KEY.trimEnd() && state.used.tls.cert === OTHER_CERT.trimEnd());
      if (used.at(-1) === false) expect(state.used.tls).toMatchObject({ cert: expect.stringContaining(CERT.trim()) });
    }
    expect(used).toEqual([false, true, true, false]);
    expect(state.reports).toEqual([
      expect.stringContaining("TLS_KEY_FILE is not the key"),
      "TLS_CERT_FILE+TLS_KEY_FILE: used",
      expect.stringContaining("TLS_KEY_FILE is not the key"),
      "TLS_CERT_FILE+TLS_KEY_FILE: used",
    ]);
  });

  it("a file is applied even if the file of another setting is invalid", async () => {
    const { pathOf, state, poll, tokens } = await watched({
      API_TOKENS_FILE: TOKENS,
      ADMIN_TOKEN_FILE: "0123456789abcdef-root",
    });
    writeFileSync(pathOf("ADMIN_TOKEN_FILE"), "short");
    writeFileSync(pathOf("API_TOKENS_FILE"), "a=a-new-token-of-24-chars");
    await poll();
    expect(tokens()).toEqual(["a-new-token-of-24-chars"]);
    expect(state.used.adminTokens).toEqual(["0123456789abcdef-root"]);
  });

  it("a file is applied at a later attempt if the service rejects it at first", async () => {
    const { pathOf, state, poll, tokens } = await watched({ API_TOKENS_FILE: TOKENS });
    state.refusal = new Error("Redis is away");
    writeFileSync(pathOf("API_TOKENS_FILE"), "a=a-new-token-of-24-chars");
    await poll(4);
    expect([tokens().length, state.reports]).toEqual([2, ["API_TOKENS_FILE: Error: Redis is away"]]);
    state.refusal = undefined;
    await poll(1);
    expect(tokens()).toEqual(["a-new-token-of-24-chars"]);
  });

  it("a rejected file is tried again with growing delays, and without a delay if the file changes", async () => {
    const { pathOf, state, poll, tokens } = await watched({ API_TOKENS_FILE: TOKENS });
    state.refusal = new Error("Redis is away");
    writeFileSync(pathOf("API_TOKENS_FILE"), "a=a-new-token-of-24-chars");
    await poll(200);
    expect(state.tries).toBeGreaterThan(5);
    expect(state.tries).toBeLessThan(13);
    state.refusal = undefined;
    writeFileSync(pathOf("API_TOKENS_FILE"), "a=a-better-token-of-27-chars");
    await poll();
    expect(tokens()).toEqual(["a-better-token-of-27-chars"]);
  });

  it("a file is applied while the read of another file hangs, and the hanging read is reported once", async () => {
    const hung = new Set<string>();
    const read = async (path: string) => {
      const device = Number(path.endsWith("ADMIN_TOKEN_FILE"));
      return hung.has(path) ? new Promise<never>(() => {}) : { text: readFileSync(path, "utf8"), device };
    };
    const texts = { ADMIN_TOKEN_FILE: "0123456789abcdef-root", API_TOKENS_FILE: TOKENS };
    const { pathOf, state, poll, tokens } = await watched(texts, {}, new FileReader(read, 20));
    await poll();
    hung.add(pathOf("ADMIN_TOKEN_FILE"));
    writeFileSync(pathOf("API_TOKENS_FILE"), "a=a-new-token-of-24-chars");
    await poll(5);
    expect(tokens()).toEqual(["a-new-token-of-24-chars"]);
    expect(state.reports).toEqual([
      "API_TOKENS_FILE: used",
      expect.stringMatching(/^ADMIN_TOKEN_FILE: ADMIN_TOKEN_FILE cannot be read: no answer from the file system at/),
    ]);
  });
});
