import { Bystander } from "../attacks/bystander.ts";
import type { SubjectServer } from "../attacks/subject.ts";
import { unforeseenIn } from "../attacks/unforeseen.ts";
import { isRunning } from "../process.ts";
import { descriptorsOf, heldBytesOf } from "../process-usage.ts";
import { pause, waitFor } from "../wait.ts";

/** What the server keeps open for itself, and connections that are closing. */
const SPARE_DESCRIPTORS = 12;
/** How long connections may take to close, in milliseconds. */
const SHORT_WHILE_MS = 5000;
const SPARE_BYTES = 64 * 1024 * 1024;

/** A server that is fuzzed, and what is looked for in it. */
export class Watched {
  readonly server: SubjectServer;
  readonly #bystander: Bystander;
  readonly #known: RegExp | undefined;
  /** What it had when it was warm. */
  #warm: { readonly descriptors: number; readonly bytes: number } | undefined;

  /** Takes a server that has started. @param known lines of its log that are no faults */
  static async of(server: SubjectServer, known: RegExp | undefined): Promise<Watched> {
    const watched = new Watched(server, known);
    for (let i = 0; i < 30; i++) await watched.#bystander.call();
    return watched;
  }

  private constructor(server: SubjectServer, known: RegExp | undefined) {
    this.#known = known;
    this.server = server;
    this.#bystander = new Bystander(server);
  }

  /** What is wrong with it; undefined while all is well. */
  async fault(): Promise<string | undefined> {
    const { server } = this;
    if (!isRunning(server.pid)) return `the process ended:\n${server.output().slice(-3000)}`;
    const [line] = unforeseenIn(server, this.#known);
    if (line !== undefined) return `it logged: ${line}`;
    try {
      await this.#bystander.call();
    } catch (error) {
      return isRunning(server.pid) ? `an ordinary call failed: ${String(error)}` : "the process ended";
    }
    return undefined;
  }

  /** Notes what a warm server has; what it has later is compared with that. */
  async noteWarm(): Promise<void> {
    await this.#settled();
    this.#warm = { descriptors: descriptorsOf(this.server.pid), bytes: await heldBytesOf(this.server) };
  }

  /** What has not come back since it was warm, although every connection is closed. */
  async leak(): Promise<string | undefined> {
    const warm = this.#warm;
    if (!warm) throw new Error("nobody noted what a warm server has");
    const { pid } = this.server;
    const most = warm.descriptors + SPARE_DESCRIPTORS;
    const back = await waitFor("descriptors come back", () => descriptorsOf(pid) <= most, 120_000).catch(() => false);
    if (!back) return `${descriptorsOf(pid)} descriptors are open, ${warm.descriptors} were`;
    const bytes = await heldBytesOf(this.server);
    if (bytes <= warm.bytes + SPARE_BYTES) return undefined;
    const mib = (value: number) => `${Math.round(value / 1024 / 1024)} MiB`;
    return `${mib(bytes)} are held, ${mib(warm.bytes)} were when it was warm`;
  }

  /** How many descriptors it has open. */
  descriptors(): number {
    return descriptorsOf(this.server.pid);
  }

  /** Whether it closes, in a little while, all but so many descriptors. */
  isBackTo(most: number): Promise<boolean> {
    return waitFor("descriptors come back", () => this.descriptors() <= most, SHORT_WHILE_MS).catch(() => false);
  }

  /** What it has now, in a few words. */
  async state(): Promise<string> {
    const bytes = await heldBytesOf(this.server);
    return `${Math.round(bytes / 1024 / 1024)} MiB, ${descriptorsOf(this.server.pid)} descriptors`;
  }

  async stop(): Promise<void> {
    this.#bystander.close();
    await this.server.end();
  }

  /** Waits until the server closes no more descriptors: until earlier connections are closed. */
  async #settled(): Promise<void> {
    let last = Number.POSITIVE_INFINITY;
    await waitFor("descriptors settle", async () => {
      await pause(1000);
      const now = descriptorsOf(this.server.pid);
      const isSettled = now >= last;
      last = now;
      return isSettled;
    });
  }
}
