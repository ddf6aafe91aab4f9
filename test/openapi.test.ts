import { describe } from "vitest";
import { describeVerdicts } from "./support/openapi/verdicts.ts";

describe("the OpenAPI document and the service accept and refuse the same generated requests of", () => {
  describeVerdicts({ numRuns: 4, seed: 1 });
});
