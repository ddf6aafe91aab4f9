import { printable } from "../output/printable.ts";
import type { Shell } from "../shell.ts";

/** The pause between two lines of progress on a terminal, and elsewhere, in milliseconds. */
const TERMINAL_MS = 200;
const LINES_MS = 10_000;

/** How far a transfer is. */
interface Position {
  /** How many groups were dealt with by this run. */
  readonly groups: number;
  /** The part that is done, from 0 to 1; undefined when it is not known. */
  readonly fraction: number | undefined;
}

/** Shows how far a transfer is: one line that changes on a terminal, a line every ten seconds elsewhere. */
export class Progress {
  readonly #stream: Shell["stderr"];
  readonly #what: string;
  readonly #isTerminal: boolean;
  readonly #now: () => number;
  readonly #begun: number;
  #beganAt: number | undefined;
  #toldAt: number;
  #note = "";
  #shown = 0;

  /**
   * @param what is done, such as `imported`
   * @param options `now`: milliseconds of a clock that is never set back
   */
  constructor(stream: Shell["stderr"], what: string, { now = () => performance.now() } = {}) {
    this.#stream = stream;
    this.#what = what;
    this.#isTerminal = stream.isTTY === true;
    this.#now = now;
    this.#begun = now();
    this.#toldAt = this.#begun;
  }

  /** Shows a position, unless one was shown a moment ago. */
  tell(position: Position): void {
    this.#beganAt ??= position.fraction;
    const now = this.#now();
    if (now - this.#toldAt < (this.#isTerminal ? TERMINAL_MS : LINES_MS)) return;
    this.#toldAt = now;
    this.#write(this.#text(position, (now - this.#begun) / 1000));
    this.#note = "";
  }

  /** Shows why there is a pause. */
  pause(pauseMs: number, reason: string): void {
    if (pauseMs < 1000) return;
    this.#note = `, waiting ${duration(pauseMs / 1000)}: ${reason}`;
    this.#toldAt = this.#now();
    this.#write(`waiting ${duration(pauseMs / 1000)}: ${reason}`);
  }

  /** Takes the line off the terminal. */
  end(): void {
    if (this.#isTerminal && this.#shown > 0) this.#stream.write(`\r${" ".repeat(this.#shown)}\r`);
    this.#shown = 0;
  }

  #text({ groups, fraction }: Position, seconds: number): string {
    const rate = groups / seconds;
    const parts = [`${this.#what} ${count(groups)} groups`, `${count(Math.round(rate))}/s`];
    if (fraction !== undefined) {
      parts.push(`${Math.floor(Math.min(1, fraction) * 100)} %`);
      const gained = fraction - (this.#beganAt ?? 0);
      // An estimate from the first moments would be far off.
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

/** A number as people read it. */
export function count(value: number): string {
  return value.toLocaleString("en-US");
}

/** A duration as people read it. */
export function duration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
