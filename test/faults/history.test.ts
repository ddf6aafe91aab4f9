import { expect, inject, it } from "vitest";
import { describeWithRedis } from "../support/opened.ts";
import { figuresText } from "./history/figures.ts";
import { promiseText } from "./history/violation.ts";
import type { Fault } from "./stage/fault.ts";
import { FAULTS } from "./stage/faults.ts";
import { perform } from "./stage/stage.ts";

/** How long a fault lasts, in seconds. */
const SECONDS = { whole: 20, short: 5 };

/** How many violations are shown. */
const SHOWN = 10;

const isShort = inject("isShort");

if (!isShort) {
  describeWithRedis("where replicas are not waited for", () => {
    it("finds what a master has acknowledged that was cut off", { timeout: 240_000 }, async () => {
      const fault = FAULTS.find(({ shape, isNetworked }) => shape === "Sentinels" && isNetworked) as Fault;
      const { violations } = await perform({ ...fault, minReplicas: 0 }, 1);
      expect(violations.map(({ kind }) => kind)).toContain("no order");
    });
  });
}

describeWithRedis("under faults, two workers on Node and one on Deno keep what they promise", () => {
  for (const fault of FAULTS.filter(({ isInShort }) => isInShort || !isShort)) {
    const title = `${fault.shape}: ${fault.name}`;
    it(title, { timeout: 240_000 }, async () => {
      const { figures, violations } = await perform(fault, isShort ? SECONDS.short : SECONDS.whole);
      console.log([title, promiseText(fault.allow), ...figuresText(figures)].join("\n  "));
      const texts = violations.map(({ kind, text }) => `${kind}: ${text}`);
      expect(texts.length, texts.slice(0, SHOWN).join("\n")).toBe(0);
    });
  }
});
