import { once } from "node:events";
import { type ClientHttp2Session, connect } from "node:http2";
import { RUNTIMES } from "@user-group-service/testing/runtime";
import { waitFor } from "@user-group-service/testing/wait";
import { describe, expect, it } from "vitest";
import { MIB, watchedPort } from "./support/watched-port.ts";

describe.each(RUNTIMES)("abandoned answers on %s:", (runtime) => {
  // In these tests, only the limit on unread bytes may end an answer.
  const { port, heldBytes } = watchedPort(runtime, { readTimeoutMs: 600_000 }, 1024);

  /**
   * Requests 100 answers of 100 KB on each of 10 connections. The streams have a flow-control window of 0 bytes, so the
   * server cannot send the answers.
   */
  async function askInVain(): Promise<ClientHttp2Session[]> {
    const sessions = Array.from({ length: 10 }, () => connect(port.url, { settings: { initialWindowSize: 0 } }));
    for (const session of sessions) {
      session.on("error", () => {});
      const answered = Array.from({ length: 100 }, async () => {
        const stream = session.request({ ":path": "/", "x-bytes": "100000" });
        stream.on("error", () => {});
        await Promise.race([once(stream, "response"), once(stream, "close")]).catch(() => {});
      });
      await Promise.all(answered);
    }
    return sessions;
  }

  it("abandoned answers release their memory, even if the connections stay open", async () => {
    const before = await heldBytes();
    const kept: ClientHttp2Session[] = [];
    for (let i = 0; i < 5; i++) kept.push(...(await askInVain()));
    // All answers together have 500 MB, but the server keeps at most 64 MiB of unread bytes.
    await waitFor(
      "the server aborts the answers above its limit",
      async () => (await heldBytes()) - before < (64 + 24) * MIB,
      60_000,
    );
    // If an answer exceeds the limit, the server must not send any byte of its body.
    const late = connect(port.url);
    kept.push(late);
    const stream = late.on("error", () => {}).request({ ":path": "/", "x-bytes": "100000" });
    let read = 0;
    stream.on("data", ({ length }: Buffer) => (read += length)).on("error", () => {});
    await once(stream, "close").catch(() => {});
    expect(read).toBe(0);
    for (const session of kept) session.destroy();
    await waitFor("the server frees all answers", async () => (await heldBytes()) - before < 24 * MIB);
  });
});
