/** What the suite said of a server. */
export interface Results {
  readonly total: number;
  readonly passed: number;
  /** What the suite printed about each case that failed, by the case's name. */
  readonly failures: ReadonlyMap<string, string>;
}

/** The share of cases that the adapter may fail, each also when it is run by itself. It fails none. */
const MAX_ADAPTER_FAILURES = 0.01;

/**
 * Reads what the suite printed.
 *
 * @throws when it does not say how every case ended
 */
export function parseResults(output: string): Results {
  const summary = /^Total cases: (\d+)\n(\d+) passed, (\d+) failed$/m.exec(output);
  if (!summary) throw new Error(`the conformance suite did not come to its end:\n${output}`);
  const [total, passed, failed] = summary.slice(1).map(Number) as [number, number, number];
  const failures = new Map<string, string>();
  for (const [text, name] of output.matchAll(/^FAILED: (.+):\n(?:\t.*\n?)*/gm)) failures.set(name as string, text);
  if (failures.size !== failed || passed + failed !== total || /^Another \d+ could not be run/m.test(output)) {
    throw new Error(`the conformance suite did not run every case:\n${output}`);
  }
  return { total, passed, failures };
}

/**
 * Why our server does not conform; empty when it does. What Connect's adapter
 * fails too is not held against it, unless the adapter fails so much that
 * something is wrong with the test.
 */
export function faults(ours: Results, adapter: Results): string[] {
  const found: string[] = [];
  if (ours.total !== adapter.total) found.push(`${ours.total} cases were run for one, ${adapter.total} for the other`);
  if (adapter.failures.size > adapter.total * MAX_ADAPTER_FAILURES || adapter.total === 0) {
    found.push(`Connect's adapter passes ${adapter.passed} of ${adapter.total}: the comparison says nothing`);
  }
  for (const [name, text] of ours.failures) if (!adapter.failures.has(name)) found.push(text.trimEnd());
  return found;
}
