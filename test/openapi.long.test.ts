import { describe } from "vitest";
import { describeVerdicts } from "./support/openapi/verdicts.ts";

describe("the OpenAPI document and the service have one verdict on many generated requests of", () => {
  describeVerdicts({ numRuns: 50, seed: 3 });
});
