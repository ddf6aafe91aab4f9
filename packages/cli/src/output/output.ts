import type { Writable } from "node:stream";
import { type DescMessage, type MessageShape, toJson } from "@bufbuild/protobuf";
import { type Fact as FieldFact, factsOf } from "../../../operator/src/fields.ts";
import { EXIT, Failure, OutputClosed } from "../failures.ts";
import { writeSecretFile } from "../files.ts";
import type { Shell } from "../shell.ts";
import { jsonLine, printable, printableLines } from "./printable.ts";
import { type Column, tableOf } from "./table.ts";

export interface Secret {
  readonly token: string;
  /**
   * The start of a note, such as `Created the user group a. Its token`. `Output` appends the end of the note, such as
   * ` is written to FILE.`.
   */
  readonly sentence: string;
  /** Advice for the user if the credential cannot be written. */
  readonly ifLost: string;
  /** The file for the credential. Undefined if the credential is written to standard output. */
  readonly file: string | undefined;
}

type Fact = Pick<FieldFact, "label" | "text">;

/** Writes results to standard output, and all other text to standard error. */
export class Output {
  readonly isJson: boolean;
  readonly isTerminal: boolean;
  readonly #shell: Pick<Shell, "stdout" | "stderr" | "env">;

  constructor(shell: Pick<Shell, "stdout" | "stderr" | "env">, isJson: boolean) {
    this.#shell = shell;
    this.isJson = isJson;
    this.isTerminal = shell.stdout.isTTY === true;
  }

  /**
   * Writes a list page by page, as a table. If `--json` is set, writes each message as one line of JSON.
   *
   * @returns whether the list has items
   */
  async list<S extends DescMessage>(
    schema: S,
    columns: readonly Column<MessageShape<S>>[],
    pages: AsyncIterable<readonly MessageShape<S>[]> | readonly (readonly MessageShape<S>[])[],
  ): Promise<boolean> {
    return this.rows(columns, pages, (message) => toJson(schema, message));
  }

  /** Like `list`, for items that are not protobuf messages. */
  async rows<T>(
    columns: readonly Column<T>[],
    pages: AsyncIterable<readonly T[]> | readonly (readonly T[])[],
    jsonOf: (item: T) => unknown,
  ): Promise<boolean> {
    const linesOf = tableOf(columns, (this.isTerminal && this.#shell.stdout.columns) || undefined);
    let hasItems = false;
    for await (const page of pages) {
      if (page.length === 0) continue;
      if (this.isJson) {
        for (const item of page) await this.line(jsonLine(jsonOf(item)));
      } else {
        const lines = linesOf(page);
        if (!hasItems) await this.heading(lines.shift() ?? "");
        await this.line(lines.join("\n"));
      }
      hasItems = true;
    }
    return hasItems;
  }

  /**
   * Writes a resource, one label and value per line: first the lines of `first`, then the fields of the message. If
   * `--json` is set, writes only the message.
   */
  async record<S extends DescMessage>(schema: S, message: MessageShape<S>, first: readonly Fact[] = []): Promise<void> {
    if (this.isJson) return this.message(schema, message);
    const facts: readonly Fact[] = [...first, ...factsOf(schema, message)];
    const width = Math.max(...facts.map(({ label }) => label.length));
    await this.line(facts.map(({ label, text }) => `${label.padEnd(width)}  ${printable(text)}`).join("\n"));
  }

  async message<S extends DescMessage>(schema: S, message: MessageShape<S>): Promise<void> {
    await this.line(jsonLine(toJson(schema, message)));
  }

  /**
   * Writes a line to standard output. If standard output is a terminal, escapes unsafe characters.
   *
   * @throws OutputClosed if the reader has closed the pipe
   * @throws Error if the system cannot write the line, for example because the disk is full
   */
  line(text: string): Promise<void> {
    return this.text(`${text}\n`);
  }

  text(text: string): Promise<void> {
    return write(this.#shell.stdout, this.isTerminal ? printableLines(text) : text);
  }

  /**
   * Writes a line. On a terminal, the line is bold. If NO_COLOR is set (https://no-color.org) or TERM is `dumb`, the
   * line is not bold.
   */
  heading(text: string): Promise<void> {
    const { NO_COLOR = "", TERM } = this.#shell.env;
    if (!this.isTerminal || NO_COLOR !== "" || TERM === "dumb") return this.line(text);
    return write(this.#shell.stdout, `\u001b[1m${printable(text)}\u001b[0m\n`);
  }

  /**
   * Writes a credential. If `--json` is set, writes the message that contains the credential.
   *
   * @throws Failure if the write fails
   */
  async secret<S extends DescMessage>(schema: S, message: MessageShape<S>, secret: Secret): Promise<void> {
    const { token, sentence, ifLost, file } = secret;
    const text = this.isJson ? jsonLine(toJson(schema, message)) : token;
    if (file !== undefined) {
      await writeSecretFile(file, `${text}\n`).catch((error: unknown) => {
        throw lostFailure(error instanceof Failure ? error.message : `cannot write ${file}`, ifLost, error);
      });
      return this.note(`${sentence} is written to ${file}.`);
    }
    this.note(`${sentence}${this.isTerminal ? ":" : " is written to standard output."}`);
    await this.line(text).catch((error: unknown) => {
      const { code = "closed" } = error as { code?: string };
      throw lostFailure(`cannot write to standard output (${code})`, ifLost, error);
    });
    if (this.isTerminal)
      this.note(
        "The scrollback of this terminal contains the secret: clear the scrollback, or write secrets to a file with --out FILE.",
      );
  }

  /** Writes a note to standard error. If `--json` is set, writes nothing. */
  note(text: string): void {
    if (!this.isJson) this.#shell.stderr.write(`${printable(text)}\n`);
  }
}

function lostFailure(problem: string, hint: string, cause: unknown): Failure {
  return new Failure(`${problem}: the secret is lost`, { exitCode: EXIT.failed, hint, cause });
}

/** Writes to a stream, and waits for the write, so that `ugs` does not buffer many pages. */
function write(stream: Writable, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (!error) resolve();
      else reject(isClosedPipe(error) ? new OutputClosed("standard output is closed") : error);
    });
  });
}

function isClosedPipe({ code }: NodeJS.ErrnoException): boolean {
  return code === "EPIPE" || code === "ERR_STREAM_DESTROYED" || code === "ERR_STREAM_WRITE_AFTER_END";
}
