import { once } from "node:events";
import { connect } from "node:http2";
import { describe, it } from "vitest";
import { RUNTIMES } from "../../../test/support/server.ts";
import { waitFor } from "../../../test/support/wait.ts";
import { MIB, watchedPort } from "./support/watched-port.ts";

describe.each(RUNTIMES)("answers that are given up, on %s:", (runtime) => {
  const { port, heldBytes } = watchedPort(runtime, {}, 1024);

  /** Asks for answers of 100 KB, 100 on each of 10 connections, whose streams have no window for them; ends the connections. */
  async function askInVain(): Promise<void> {
    for (let i = 0; i < 10; i++) {
      const session = connect(port.url, { settings: { initialWindowSize: 0 } });
      session.on("error", () => {});
      const answered = Array.from({ length: 100 }, async () => {
        const stream = session.request({ ":path": "/", "x-bytes": "100000" });
        stream.on("error", () => {});
        // One that is refused is closed.
        await Promise.race([once(stream, "response"), once(stream, "close")]).catch(() => {});
      });
      await Promise.all(answered);
      session.destroy();
    }
  }

  it("leave nothing behind", async () => {
    await askInVain();
    const before = await heldBytes();
    for (let i = 0; i < 4; i++) await askInVain();
    // Kept, they would be 400 MB.
    await waitFor("they are let go", async () => (await heldBytes()) - before < 24 * MIB);
  });
});
