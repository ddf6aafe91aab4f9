import { expect, inject, it } from "vitest";
import { describeWithRedis } from "../support/opened.ts";
import { figuresText } from "./history/figures.ts";
import { promiseText } from "./history/violation.ts";
import type { Fault } from "./stage/fault.ts";
import { FAULTS } from "./stage/faults.ts";
import { perform } from "./stage/stage.ts";

const SECONDS = { whole: 20, short: 5 };

const SHOWN = 10;

const isShort = inject("isShort");

if (!isShort) {
  describeWithRedis("without MIN_REPLICAS_ACK", () => {
    it("the checker finds acknowledged changes that an isolated master lost", { timeout: 240_000 }, async () => {
      const fault = FAULTS.find(({ topology, isNetworked }) => topology === "Sentinels" && isNetworked) as Fault;
      const { violations } = await perform({ ...fault, minReplicas: 0 }, 1);
      expect(violations.map(({ kind }) => kind)).toContain("no order");
    });
  });
}

describeWithRedis("under faults, two workers on Node and one on Deno keep their promises", () => {
  for (const fault of FAULTS.filter(({ isInShort }) => isInShort || !isShort)) {
    const title = `${fault.topology}: ${fault.name}`;
    it(title, { timeout: 240_000 }, async () => {
      const { figures, violations } = await perform(fault, isShort ? SECONDS.short : SECONDS.whole);
      console.log([title, promiseText(fault.allow), ...figuresText(figures)].join("\n  "));
      const texts = violations.map(({ kind, text }) => `${kind}: ${text}`);
      expect(texts.length, texts.slice(0, SHOWN).join("\n")).toBe(0);
    });
  }
});
