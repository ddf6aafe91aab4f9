import { pause } from "@user-group-service/testing/wait";
import { expect } from "vitest";
import { STRICT } from "../history/violation.ts";
import type { Fault } from "./fault.ts";
import type { Stage } from "./stage.ts";

export const workerFaults: readonly Fault[] = (["Sentinels", "a Cluster"] as const).flatMap((topology): Fault[] => [
  {
    name: "workers are killed",
    topology,
    minReplicas: 1,
    workersEnd: true,
    allow: STRICT,
    isInShort: topology === "a Cluster",
    act: (stage) =>
      endEach(stage, async (server) => {
        server.signal("SIGKILL");
        await server.exited();
      }),
  },
  {
    name: "workers receive SIGTERM",
    topology,
    minReplicas: 1,
    workersEnd: true,
    allow: STRICT,
    act: (stage) => endEach(stage, async (server) => expect(await server.stop()).toBe(0)),
  },
]);

async function endEach(
  { workers, load, hasTime }: Stage,
  end: (server: ReturnType<Stage["workers"][number]["server"]>) => Promise<void>,
): Promise<void> {
  for (let round = 0; hasTime(); round++) {
    const worker = workers[round % workers.length] as (typeof workers)[number];
    await end(worker.server());
    await pause(500);
    await worker.restart();
    await load.servedAgain();
  }
}
