import { expect, it } from "vitest";
import { lossReporter } from "./open-traces.ts";

it("counts all lost spans, and warns once per cause", () => {
  const warned: object[] = [];
  let counted = 0;
  const logger = { warn: (fields: object) => void warned.push(fields) };
  const onLost = lossReporter(logger as never, (_, spans) => (counted += spans));
  for (let i = 0; i < 3; i++) {
    onLost("rate", 1);
    onLost("export", 10, new Error("the collector is down"));
  }
  expect(warned).toEqual([{ lost: "rate" }, expect.objectContaining({ lost: "export" })]);
  expect(counted).toBe(33);
});
