import { describe, expect, it } from "vitest";
import { parseResults } from "./results.ts";

const END = "\nTotal cases: 3\n1 passed, 2 failed\n";
const OUTPUT = `FAILED: Deadlines/TLS:false/unary/a:\n\twas 1\n\twas 2\nFAILED: Deadlines/TLS:false/unary/b:\n\twas 3\n${END}`;

describe("parsing the output of the conformance suite", () => {
  it("the results include the suite's output for each failure", () => {
    const { total, passed, failures } = parseResults(OUTPUT);
    expect([total, passed]).toEqual([3, 1]);
    expect(failures).toEqual([
      "FAILED: Deadlines/TLS:false/unary/a:\n\twas 1\n\twas 2",
      "FAILED: Deadlines/TLS:false/unary/b:\n\twas 3",
    ]);
  });

  it("the results are an error if a case has no outcome", () => {
    expect(() => parseResults("error starting server")).toThrow("ended early");
    expect(() => parseResults(END)).toThrow("did not run every case");
    const cut = "Total cases: 3\n3 passed, 0 failed\nAnother 2 could not be run due to client timing out";
    expect(() => parseResults(cut)).toThrow("did not run every case");
  });
});
