import { type Config, ConfigError } from "./config.ts";
import { type FileContent, FileReader } from "./file-reader.ts";
import type { FileSetting } from "./settings.ts";

const INTERVAL_MS = 1000;

/** Groups of files. The files in a group must match, so the service applies the changes of these files together. */
const TOGETHER: readonly (readonly FileSetting[])[] = [
  ["TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CLIENT_CA_FILE"],
  ["OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY"],
];

export interface FilesListener {
  /**
   * Applies the new contents. If this function rejects, the old contents stay in use. `SettingFiles` then calls this
   * function again with growing delays, until a call succeeds or the files change.
   */
  readonly use: (config: Config, changed: ReadonlySet<FileSetting>) => Promise<void>;
  /**
   * Called once for each new content.
   *
   * @param error undefined if the content is in use; a ConfigError if it is invalid; otherwise the error of `use`
   */
  readonly onResult: (changed: ReadonlySet<FileSetting>, error?: unknown) => void;
}

/**
 * If the service has rejected the contents of files, it tries the same contents again. Between two attempts, it reads
 * the files at most this number of times. The attempts are rare, because an attempt may be expensive for Redis.
 */
const MAX_WAIT = 30;

interface Rejected {
  readonly contents: string;
  /** The contents and their error as one text. If the next error has the same text, `onResult` is not called again. */
  readonly report: string;
  /** The number of reads between the last attempt and the next attempt. */
  readonly reads: number;
  left: number;
}

/**
 * Polls the files of settings, because the file watchers of Node and Deno do not detect every replacement of a file.
 * Uses contents only after two equal reads, so that a half-written file is never used.
 */
export class SettingFiles {
  readonly #listener: FilesListener;
  readonly #groups: readonly ReadonlySet<FileSetting>[];
  #config: Config;
  readonly #reader: FileReader;
  #contents: ReadonlyMap<FileSetting, FileContent>;
  readonly #rejected = new Map<ReadonlySet<FileSetting>, Rejected>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(config: Config, listener: FilesListener, reader = new FileReader()) {
    this.#config = config;
    this.#listener = listener;
    this.#reader = reader;
    this.#contents = new Map(config.files.map(({ setting, text }) => [setting, text]));
    const settings = new Set(config.files.map(({ setting }) => setting));
    const groupOf = (setting: FileSetting) => TOGETHER.find((group) => group.includes(setting)) ?? [setting];
    const groups = new Set([...settings].map(groupOf));
    this.#groups = [...groups].map((group) => new Set(group.filter((setting) => settings.has(setting))));
  }

  watch(): void {
    if (this.#config.files.length === 0 || this.#isClosed) return;
    this.#timer = setTimeout(() => void this.readAll().finally(() => this.watch()), INTERVAL_MS).unref();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  async readAll(): Promise<void> {
    const before = this.#contents;
    this.#contents = await this.#reader.readAll(this.#config.files.map(({ setting, path }) => [setting, path]));
    for (const group of this.#groups) {
      const isSettled = [...group].every((setting) => isSame(this.#contents.get(setting), before.get(setting)));
      if (isSettled) await this.#use(group);
    }
  }

  async #use(group: ReadonlySet<FileSetting>): Promise<void> {
    const contents = [...group].map((setting) => [setting, this.#contents.get(setting)] as const);
    const used = new Map(this.#config.files.map(({ setting, text }) => [setting, text]));
    const isChanged = contents.some(([setting, content]) => content !== used.get(setting));
    const before = this.#rejected.get(group);
    if (!isChanged && !before) return;
    const texts = JSON.stringify(contents.map(([, content]) => String(content)));
    const same = before?.contents === texts ? before : undefined;
    if (same && same.left-- > 0) return;
    try {
      if (isChanged) {
        const faults = contents.flatMap(([setting, content]) =>
          content instanceof Error ? [`${setting} ${content.message}`] : [],
        );
        if (faults.length > 0) throw new ConfigError(faults);
        const config = this.#config.withTexts(Object.fromEntries(contents));
        await this.#listener.use(config, group);
        this.#config = config;
      }
      this.#rejected.delete(group);
      this.#listener.onResult(group);
    } catch (error) {
      const reads = same ? Math.min(MAX_WAIT, 2 * same.reads + 1) : 0;
      const report = JSON.stringify([texts, String(error)]);
      this.#rejected.set(group, { contents: texts, report, reads, left: reads });
      if (before?.report !== report) this.#listener.onResult(group, error);
    }
  }
}

function isSame(one: FileContent | undefined, other: FileContent | undefined): boolean {
  return typeof one === typeof other && String(one) === String(other);
}
