import { byGroup, type Call, fateOf, isOk, madeBy } from "./call.ts";
import { checkRegister, type Read, type Write } from "./register.ts";
import type { Allowances, Violation } from "./violation.ts";

/** Whether what Update and Get wrote is what was read, and in one order for each group. */
export function checkNames(calls: readonly Call[], allow: Allowances): Violation[] {
  const violations: Violation[] = [];
  for (const [group, own] of byGroup(calls)) {
    violations.push(...checkRegister(`the name of ${group}`, writesOf(own), readsOf(own), allow));
  }
  for (const call of calls) {
    if (!isOk(call)) continue;
    const { method, group, value, answer } = call;
    const { name, mapped } = answer.seen;
    if (name !== mapped)
      violations.push({ kind: "torn", text: `${group} has the name ${name} and the mapping of ${mapped}` });
    const isOwn = method === "update" || answer.created;
    if (isOwn && name !== value) {
      violations.push({ kind: "torn", text: `${group}: the change to ${value} was answered with ${name}` });
    }
  }
  return violations;
}

function writesOf(calls: readonly Call[]): Write[] {
  return calls.flatMap((call): Write[] => {
    if (call.value === undefined) return [];
    // A Get that finds the group writes nothing.
    if (call.method === "get" && isOk(call) && !call.answer.created) return [];
    return [{ value: call.value, start: call.start, end: madeBy(call), fate: fateOf(call) }];
  });
}

function readsOf(calls: readonly Call[]): Read[] {
  return calls.filter(isOk).map(({ start, end, isFinal = false, answer }) => ({
    value: answer.seen.name,
    start,
    end,
    isFinal,
  }));
}
