import { describe, expect, inject, it } from "vitest";
import { describeWithRedis } from "../support/opened.ts";
import { figuresText } from "./history/figures.ts";
import { FAULTS } from "./stage/faults.ts";
import { perform } from "./stage/stage.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** Whether only some faults come, for a shorter time. */
    isShort: boolean;
  }
}

/** How long a fault lasts, in seconds. */
const SECONDS = { whole: 20, short: 6 };

/** How many violations are shown. */
const SHOWN = 10;

const isShort = inject("isShort");

describeWithRedis("under faults, two workers on Node and one on Deno keep what they promise", () => {
  describe.each([...new Set(FAULTS.map(({ shape }) => shape))])("with %s", (shape) => {
    const faults = FAULTS.filter((fault) => fault.shape === shape && (fault.isInShort || !isShort));
    it.each(faults)("$name", { timeout: 240_000 }, async (fault) => {
      const { figures, violations } = await perform(fault, isShort ? SECONDS.short : SECONDS.whole);
      console.log(`${fault.shape}, ${fault.name}: ${figuresText(figures)}`);
      const texts = violations.map(({ kind, text }) => `${kind}: ${text}`);
      expect(texts.length, texts.slice(0, SHOWN).join("\n")).toBe(0);
    });
  });
});
