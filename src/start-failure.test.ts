import { expect, it } from "vitest";
import { RecordUnreadable } from "./domain/errors.ts";
import { explainStartFailure } from "./start-failure.ts";

it("says what to check when Redis holds a record that is not of this service", () => {
  const text = explainStartFailure(new RecordUnreadable(new Error("ug:env:acme/ holds no usable number")));
  expect(text).toMatch(/^cannot use Redis: ug:env:acme\/ holds no usable number; check that REDIS_URL .*/);
});
