export interface Results {
  readonly total: number;
  readonly passed: number;
  readonly failures: readonly string[];
}

/** Parses the suite's output. @throws if a case has no outcome */
export function parseResults(output: string): Results {
  const summary = /^Total cases: (\d+)\n(\d+) passed, (\d+) failed$/m.exec(output);
  if (!summary) throw new Error(`the conformance suite ended early:\n${output}`);
  const [total, passed, failed] = summary.slice(1).map(Number) as [number, number, number];
  const failures = Array.from(output.matchAll(/^FAILED: .+:\n(?:\t.*\n?)*/gm), ([text]) => text.trimEnd());
  if (failures.length !== failed || passed + failed !== total || /^Another \d+ could not be run/m.test(output)) {
    throw new Error(`the conformance suite did not run every case:\n${output}`);
  }
  return { total, passed, failures };
}
