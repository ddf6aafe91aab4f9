import { describe } from "vitest";
import { describeVerdicts } from "./support/openapi/verdicts.ts";

const SEED = Date.now() % 2 ** 31;

describe(`the OpenAPI document and the service have one verdict, by the seed ${SEED}, on many requests of`, () => {
  describeVerdicts({ numRuns: 50, seed: SEED });
});
