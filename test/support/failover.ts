import { startProcess } from "@user-group-service/testing/process";
import { waitFor } from "@user-group-service/testing/wait";
import { MASTER } from "./redis-sentinel.ts";

/** Time after which Redis has certainly canceled a planned failover that did not finish, in milliseconds. */
const GIVEN_UP_MS = 6000;

/**
 * Makes a replica the master through a planned failover, and repeats the failover if Redis cancels it. On a busy
 * machine, the replica may not catch up within the 5 s that a Cluster allows.
 */
export async function planFailover(ask: () => Promise<void>, isReplaced: () => Promise<boolean>): Promise<void> {
  let askAgainAt = 0;
  await waitFor("another node is the master", async () => {
    if (await isReplaced().catch(() => false)) return true;
    if (performance.now() < askAgainAt) return false;
    askAgainAt = performance.now() + GIVEN_UP_MS;
    // Redis refuses a second failover while the first is in progress.
    await ask().catch(() => undefined);
    return false;
  });
}

export async function failOverByScript(url: string, master = MASTER): Promise<{ code: number | null; output: string }> {
  const [, sentinel = ""] = /:\/\/([^,/]+)/.exec(url) ?? [];
  const script = startProcess(["scripts/sentinel-failover.sh", sentinel, master]);
  return { code: await script.exited(), output: script.output() };
}
