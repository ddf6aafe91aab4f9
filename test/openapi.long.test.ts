import { describe } from "vitest";
import { describeVerdicts } from "./support/openapi/verdicts.ts";

describe("the OpenAPI document and the service", () => {
  describeVerdicts({ numRuns: 50, seed: 3 });
});
