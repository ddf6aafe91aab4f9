import { describe, expect, it } from "vitest";
import { faults, parseResults } from "./results.ts";

const END = "\nTotal cases: 3\n1 passed, 2 failed\n";
const OUTPUT = `FAILED: Deadlines/TLS:false/unary/a:\n\twas 1\n\twas 2\nFAILED: Deadlines/TLS:false/unary/b:\n\twas 3\n${END}`;
const PASSED = parseResults("Total cases: 300\n300 passed, 0 failed\n");

describe("the results of the conformance suite", () => {
  it("are read with what was said of each failure", () => {
    const { total, passed, failures } = parseResults(OUTPUT);
    expect([total, passed]).toEqual([3, 1]);
    expect([...failures.keys()]).toEqual(["Deadlines/TLS:false/unary/a", "Deadlines/TLS:false/unary/b"]);
    expect(failures.get("Deadlines/TLS:false/unary/a")).toContain("was 2");
  });

  it("are none where a case has no outcome", () => {
    expect(() => parseResults("error starting server")).toThrow("did not come to its end");
    expect(() => parseResults(END)).toThrow("did not run every case");
    const cut = "Total cases: 3\n3 passed, 0 failed\nAnother 2 could not be run due to client timing out";
    expect(() => parseResults(cut)).toThrow("did not run every case");
  });

  it("hold against our server what Connect's adapter passes", () => {
    const failing = (...names: string[]) => ({
      total: 300,
      passed: 300 - names.length,
      failures: new Map(names.map((name) => [name, `FAILED: ${name}`])),
    });
    expect(faults(PASSED, PASSED)).toEqual([]);
    expect(faults(failing("a", "b"), failing("b"))).toEqual(["FAILED: a"]);
    expect(faults(failing(), failing("b"))).toEqual([]);
  });

  it("say nothing where the adapter fails much or ran other cases", () => {
    expect(faults(parseResults(OUTPUT), parseResults(OUTPUT))[0]).toContain("passes 1 of 3");
    expect(faults({ ...PASSED, total: 299 }, PASSED)[0]).toContain("299 cases");
  });
});
