import { expect, inject, it } from "vitest";
import { describeWithRedis } from "../support/opened.ts";
import type { Fault } from "./stage/fault.ts";
import { FAULTS } from "./stage/faults.ts";
import { describeFaultsOn } from "./stage/promises.ts";
import { perform } from "./stage/stage.ts";

if (!inject("isShort")) {
  describeWithRedis("without MIN_REPLICAS_ACK", () => {
    it("the checker finds acknowledged changes that an isolated master lost", { timeout: 240_000 }, async () => {
      const fault = FAULTS.find(({ topology, isNetworked }) => topology === "Sentinels" && isNetworked) as Fault;
      const { violations } = await perform({ ...fault, minReplicas: 0 }, 1);
      expect(violations.map(({ kind }) => kind)).toContain("no order");
    });
  });
}

describeFaultsOn("one node", "Sentinels");
