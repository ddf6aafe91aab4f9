import { expect, inject, it } from "vitest";
import { describeWithRedis } from "../../support/opened.ts";
import { figuresText } from "../history/figures.ts";
import { promiseText } from "../history/violation.ts";
import { FAULTS } from "./faults.ts";
import { perform } from "./stage.ts";
import type { TopologyName } from "./topologies.ts";

const SECONDS = { whole: 20, short: 5 };

const SHOWN = 10;

/** Registers a test for each fault on the given topologies. In a short run, registers tests for only some faults. */
export function describeFaultsOn(...topologies: readonly TopologyName[]): void {
  const isShort = inject("isShort");
  describeWithRedis(
    "under faults, two workers on Node and one on Deno lose no acknowledged change, and their answers agree with the changes",
    () => {
      for (const fault of FAULTS.filter(({ topology }) => topologies.includes(topology))) {
        if (isShort && !fault.isInShort) continue;
        const title = `${fault.topology}: ${fault.name}`;
        it(title, { timeout: 240_000 }, async () => {
          const { figures, violations } = await perform(fault, isShort ? SECONDS.short : SECONDS.whole);
          console.log([title, promiseText(fault.allow), ...figuresText(figures)].join("\n  "));
          const texts = violations.map(({ kind, text }) => `${kind}: ${text}`);
          expect(texts.length, texts.slice(0, SHOWN).join("\n")).toBe(0);
        });
      }
    },
  );
}
