import { Bystander } from "../attacks/bystander.ts";
import type { SubjectServer } from "../attacks/subject.ts";
import { unexpectedIn } from "../attacks/unexpected.ts";
import { isRunning } from "../process.ts";
import { descriptorsOf, heldBytesOf } from "../process-usage.ts";
import { pause, waitFor } from "../wait.ts";

/** Number of descriptors that the server itself opens, and of connections that are closing. */
const SPARE_DESCRIPTORS = 12;
const SPARE_BYTES = 64 * 1024 * 1024;

/** A fuzzed server, and the checks of its state. */
export class Watched {
  readonly server: SubjectServer;
  readonly #bystander: Bystander;
  /** Its state after the warm-up. */
  #warm: { readonly descriptors: number; readonly bytes: number } | undefined;

  /** Wraps a running server. */
  static async of(server: SubjectServer): Promise<Watched> {
    const watched = new Watched(server);
    for (let i = 0; i < 30; i++) await watched.#bystander.call();
    return watched;
  }

  private constructor(server: SubjectServer) {
    this.server = server;
    this.#bystander = new Bystander(server);
  }

  /** Finds a fault. @returns undefined if there is none */
  async fault(): Promise<string | undefined> {
    const { server } = this;
    if (!isRunning(server.pid)) return `the process exited:\n${server.output().slice(-3000)}`;
    const [line] = unexpectedIn(server);
    if (line !== undefined) return `it logged: ${line}`;
    try {
      await this.#bystander.call();
    } catch (error) {
      return isRunning(server.pid) ? `an ordinary call failed: ${String(error)}` : "the process exited";
    }
    return undefined;
  }

  /** Records the state after the warm-up, for later comparisons. */
  async noteWarm(): Promise<void> {
    await this.#settled();
    this.#warm = { descriptors: descriptorsOf(this.server.pid), bytes: await heldBytesOf(this.server) };
  }

  /** Resources that were not released since the warm-up, although all connections are closed. */
  async leak(): Promise<string | undefined> {
    const warm = this.#warm;
    if (!warm) throw new Error("the state after the warm-up was not recorded");
    const { pid } = this.server;
    const most = warm.descriptors + SPARE_DESCRIPTORS;
    const isBack = () => descriptorsOf(pid) <= most;
    await waitFor("the descriptors are closed", isBack).catch(() => {});
    if (!isBack()) return `${descriptorsOf(pid)} descriptors are open, ${warm.descriptors} after the warm-up`;
    const bytes = await heldBytesOf(this.server);
    if (bytes <= warm.bytes + SPARE_BYTES) return undefined;
    const mib = (value: number) => `${Math.round(value / 1024 / 1024)} MiB`;
    return `${mib(bytes)} in use, ${mib(warm.bytes)} after the warm-up`;
  }

  /** Its memory and descriptors, for the log. */
  async state(): Promise<string> {
    const bytes = await heldBytesOf(this.server);
    return `${Math.round(bytes / 1024 / 1024)} MiB, ${descriptorsOf(this.server.pid)} descriptors`;
  }

  async stop(): Promise<void> {
    this.#bystander.close();
    await this.server.end();
  }

  /** Waits until earlier connections are closed: the number of descriptors no longer falls. */
  async #settled(): Promise<void> {
    let last = Number.POSITIVE_INFINITY;
    await waitFor("the number of descriptors is stable", async () => {
      await pause(1000);
      const now = descriptorsOf(this.server.pid);
      const isSettled = now >= last;
      last = now;
      return isSettled;
    });
  }
}
