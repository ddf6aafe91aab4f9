import { countText } from "../../../operator/src/words.ts";
import { printable } from "../output/printable.ts";
import type { Shell } from "../shell.ts";

/** The minimum time between two updates on a terminal, in milliseconds. */
const TERMINAL_MS = 200;
/** The minimum time between two lines on a stream that is not a terminal, in milliseconds. */
const LINES_MS = 10_000;

interface Position {
  readonly groups: number;
  /** The processed part of the input, from 0 to 1. Undefined if unknown. */
  readonly fraction: number | undefined;
}

/**
 * Shows the progress of a transfer. On a terminal, updates one line. On a stream that is not a terminal, writes a line
 * every ten seconds.
 */
export class Progress {
  readonly #stream: Shell["stderr"];
  readonly #what: string;
  readonly #isTerminal: boolean;
  readonly #begun = performance.now();
  #beganAt: number | undefined;
  #shownAt = this.#begun;
  #note = "";
  #shown = 0;

  /** @param what the verb at the start of the line, such as `imported` */
  constructor(stream: Shell["stderr"], what: string) {
    this.#stream = stream;
    this.#what = what;
    this.#isTerminal = stream.isTTY === true;
  }

  /** Shows a position. Does nothing before the minimum time since the last update has passed. */
  show(position: Position): void {
    this.#beganAt ??= position.fraction;
    const now = performance.now();
    if (now - this.#shownAt < (this.#isTerminal ? TERMINAL_MS : LINES_MS)) return;
    this.#shownAt = now;
    this.#write(this.#text(position, (now - this.#begun) / 1000));
    this.#note = "";
  }

  /** Shows a pause and the reason for the pause. Shows no pause that is shorter than one second. */
  pause(pauseMs: number, reason: string): void {
    if (pauseMs < 1000) return;
    this.#note = `, waiting ${duration(pauseMs / 1000)}: ${reason}`;
    this.#shownAt = performance.now();
    this.#write(`waiting ${duration(pauseMs / 1000)}: ${reason}`);
  }

  clear(): void {
    if (this.#isTerminal && this.#shown > 0) this.#stream.write(`\r${" ".repeat(this.#shown)}\r`);
    this.#shown = 0;
  }

  #text({ groups, fraction }: Position, seconds: number): string {
    const rate = groups / seconds;
    const parts = [`${this.#what} ${countText(groups, "group")}`, `${count(Math.round(rate))}/s`];
    if (fraction !== undefined) {
      parts.push(`${Math.floor(Math.min(1, fraction) * 100)} %`);
      const gained = fraction - (this.#beganAt ?? 0);
      // An estimate from less than two seconds would be too inaccurate.
      if (gained > 0 && seconds > 2) parts.push(`${duration(((1 - fraction) / gained) * seconds)} left`);
    }
    return parts.join(", ") + this.#note;
  }

  #write(text: string): void {
    const safe = printable(text);
    if (!this.#isTerminal) return void this.#stream.write(`${safe}\n`);
    const line = safe.slice(0, (this.#stream.columns || 80) - 1);
    this.#stream.write(`\r${line.padEnd(this.#shown)}`);
    this.#shown = line.length;
  }
}

/** Formats a number for a person, such as `1,234`. */
export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** Formats a duration for a person, such as `1 min 30 s`. */
export function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
