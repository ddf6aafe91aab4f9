import { type Config, ConfigError } from "./config.ts";
import { type FileContent, FileReader } from "./file-reader.ts";
import type { FileSetting } from "./settings.ts";

/** How often the files of settings are read, in milliseconds. What has changed is used when it is the same the next time. */
const INTERVAL_MS = 1000;

/** Files that have to fit each other, and so are taken together. */
const TOGETHER: readonly (readonly FileSetting[])[] = [
  ["TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CLIENT_CA_FILE"],
  ["OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_KEY"],
];

/** What becomes of files that change. */
interface FilesListener {
  /**
   * Makes the service use the new contents of changed files. When it rejects, the service keeps the contents before, and
   * this is called again, less and less often as long as the files stay as they are.
   */
  readonly use: (config: Config, changed: ReadonlySet<FileSetting>) => Promise<void>;
  /**
   * Told once of each content that is used, or cannot be.
   *
   * @param error undefined: it is used; a ConfigError names the setting at fault, any other is of `use`
   */
  readonly onResult: (changed: ReadonlySet<FileSetting>, error?: unknown) => void;
}

/** The most looks between two tries of contents that cannot be used: a try may cost Redis much. */
const MAX_WAIT = 30;

/** How long what cannot be used waits for its next try, in looks. */
interface Wait {
  readonly contents: string;
  readonly looks: number;
  left: number;
}

/**
 * Reads the files of settings periodically, because no runtime reports every way in which a file can be replaced. A
 * content is used once it was read twice in a row, so that half-written files are not; a faulty content is never used.
 */
export class SettingFiles {
  readonly #listener: FilesListener;
  readonly #groups: readonly ReadonlySet<FileSetting>[];
  #config: Config;
  readonly #reader: FileReader;
  #contents: ReadonlyMap<FileSetting, FileContent>;
  /** What was told last of the groups whose files cannot be used. */
  readonly #told = new Map<ReadonlySet<FileSetting>, string>();
  /** How many looks pass until contents that cannot be used are tried again. */
  readonly #waits = new Map<ReadonlySet<FileSetting>, Wait>();
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

  /** Begins to read them from time to time; without any there is nothing to do. */
  watch(): void {
    if (this.#config.files.length === 0 || this.#isClosed) return;
    this.#timer = setTimeout(() => void this.look().finally(() => this.watch()), INTERVAL_MS).unref();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  /** Reads them once. */
  async look(): Promise<void> {
    const before = this.#contents;
    this.#contents = await this.#reader.readAll(this.#config.files.map(({ setting, path }) => [setting, path]));
    for (const group of this.#groups) {
      const isSettled = [...group].every((setting) => isSame(this.#contents.get(setting), before.get(setting)));
      if (isSettled) await this.#take(group);
    }
  }

  async #take(group: ReadonlySet<FileSetting>): Promise<void> {
    const contents = [...group].map((setting) => [setting, this.#contents.get(setting)] as const);
    const used = new Map(this.#config.files.map(({ setting, text }) => [setting, text]));
    const isChanged = contents.some(([setting, content]) => content !== used.get(setting));
    if (!isChanged && !this.#told.has(group)) return;
    const texts = JSON.stringify(contents.map(([, content]) => String(content)));
    const before = this.#waits.get(group);
    const wait = before?.contents === texts ? before : undefined;
    if (wait && wait.left-- > 0) return;
    this.#waits.delete(group);
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
      this.#told.delete(group);
      this.#listener.onResult(group);
    } catch (error) {
      const looks = wait ? Math.min(MAX_WAIT, 2 * wait.looks + 1) : 0;
      this.#waits.set(group, { contents: texts, looks, left: looks });
      const told = JSON.stringify([texts, String(error)]);
      if (this.#told.get(group) === told) return;
      this.#told.set(group, told);
      this.#listener.onResult(group, error);
    }
  }
}

function isSame(one: FileContent | undefined, other: FileContent | undefined): boolean {
  return typeof one === typeof other && String(one) === String(other);
}
