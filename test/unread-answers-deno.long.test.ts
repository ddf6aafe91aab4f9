import { once } from "node:events";
import { connect } from "node:http2";
import { it } from "vitest";
import { collectable, heldBytesOf } from "./support/process-usage.ts";
import { startServer, type TestServer } from "./support/server.ts";
import { waitFor } from "./support/wait.ts";

const MIB = 1024 * 1024;

/** Asks for the metrics so many times, on connections of 100 streams whose answers have no window; gives the connections. */
async function askInVain({ url }: TestServer, times: number) {
  const sessions = Array.from({ length: times / 100 }, () => connect(url, { settings: { initialWindowSize: 0 } }));
  for (const session of sessions) {
    session.on("error", () => {});
    const answered = Array.from({ length: 100 }, async () => {
      const stream = session.request({ ":path": "/metrics" });
      stream.on("error", () => {});
      // One that is refused is closed.
      await Promise.race([once(stream, "response"), once(stream, "close")]).catch(() => {});
    });
    await Promise.all(answered);
  }
  return sessions;
}

it("Deno keeps nothing of answers that were given up", { timeout: 240_000 }, async () => {
  const server = await startServer({ runtime: "deno", ...collectable("deno") });
  try {
    // More than the 64 MiB that may be unread at once, and all that Deno's allocator keeps room for.
    const sessions: Awaited<ReturnType<typeof askInVain>> = [];
    for (let i = 0; i < 3; i++) sessions.push(...(await askInVain(server, 1000)));
    const before = await heldBytesOf(server);
    for (let i = 0; i < 4; i++) sessions.push(...(await askInVain(server, 1000)));
    // Kept, they would be 100 MiB each time. What waits for a collection, and what the allocator keeps, does not add up.
    await waitFor("they are let go", async () => (await heldBytesOf(server)) - before < 200 * MIB, 120_000);
    for (const session of sessions) session.destroy();
  } finally {
    server.signal("SIGKILL");
    await server.exited();
  }
});
