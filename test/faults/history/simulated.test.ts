import { Random } from "@user-group-service/testing/random";
import { expect, it } from "vitest";
import type { Answer, Call } from "./call.ts";
import { check } from "./check.ts";
import { CUT_OFF, DONE, NO_GROUP, NO_TOKEN, NOT_MADE, shown, UNKNOWN } from "./told.ts";
import { STRICT } from "./violation.ts";

const CALLS = 400;
const GRACE_MS = 5;
const METHODS = ["get", "get", "update", "rotate", "revoke", "delete", "import", "resolve", "resolve"] as const;

/** A group of the simulated service. */
interface Group {
  readonly teamId: number;
  token: string;
  name: string;
  graced?: { readonly token: string; readonly until: number } | undefined;
}

/** What a service may get wrong. */
type Mistake = "delete" | "revoke" | "revoked grace" | "deleted token" | "import" | "imported token" | "team id";

/** A service that does one thing after the other, each at an instant of its call, and may be mistaken at times. */
class Simulated {
  readonly #random: Random;
  readonly #mistake: Mistake | undefined;
  #groups = new Map<string, Group>();
  /** Tokens that were given, by group. */
  readonly #given = new Map<string, string[]>();
  #count = 0;

  constructor(seed: number, mistake?: Mistake) {
    this.#random = new Random(seed);
    this.#mistake = mistake;
  }

  history(): Call[] {
    const calls: Call[] = [];
    for (let now = 1; now <= CALLS; now++) calls.push(this.#call(this.#random.pick(["a", "b"]), now));
    for (const id of ["a", "b"]) {
      calls.push({ ...this.#ask("get", id, CALLS + 20), isFinal: true, start: CALLS + 10, end: CALLS + 20 });
    }
    return calls;
  }

  /** A call that is answered, or fails before it has done anything, or after it. */
  #call(id: string, now: number): Call {
    const random = this.#random;
    const method = random.pick(METHODS);
    const longest = this.#mistake === undefined ? 4 : 1;
    const span = { start: now - random.next() * longest, end: now + random.next() * longest };
    const before = new Map([...this.#groups].map(([key, group]) => [key, { ...group }]));
    const call = { ...this.#ask(method, id, now), ...span };
    if (method === "resolve" || call.answer.code === "not_found" || random.chance(0.8)) return call;
    // What was cut off may still be made at any time, which excuses nearly everything: a mistake is to be found.
    const failures = this.#mistake === undefined ? [UNKNOWN, CUT_OFF] : [UNKNOWN];
    if (random.chance(0.5)) return { ...call, answer: random.pick(failures) };
    this.#groups = before;
    return { ...call, answer: random.pick([NOT_MADE, ...failures]) };
  }

  #ask(method: Call["method"], id: string, now: number): Call {
    const n = ++this.#count;
    const asked = { method, worker: "w", environment: "one", group: `one/${id}`, start: now, end: now };
    const tokens = this.#given.get(id) ?? [];
    const group = this.#groups.get(id);
    switch (method) {
      case "get": {
        if (group) return { ...asked, value: `n${n}`, answer: this.#shown(id) };
        const teamId = this.#isMistaken("team id") ? 1 : n;
        this.#put(id, { teamId, token: `t${n}`, name: `n${n}` });
        return { ...asked, value: `n${n}`, answer: this.#shown(id, true) };
      }
      case "resolve": {
        const token = tokens.length > 0 ? this.#random.pick(tokens.slice(-4)) : "none";
        const isTaken =
          group?.token === token ||
          (group?.graced?.token === token && now < group.graced.until) ||
          (group && this.#isMistaken("deleted token"));
        return { ...asked, token, answer: isTaken ? withoutToken(this.#shown(id)) : NO_TOKEN };
      }
      case "import": {
        const [given, value] = [`f${n}`, `n${n}`];
        const kept = this.#isMistaken("imported token") ? group?.token : undefined;
        if (!this.#isMistaken("import"))
          this.#put(id, { teamId: group?.teamId ?? n, token: kept ?? given, name: value });
        return { ...asked, given, value, answer: { ...DONE, created: !group } as Answer };
      }
      default:
        return { ...asked, ...this.#change(method, id, { n, now }) };
    }
  }

  /** What needs the group to be there. */
  #change(
    method: Call["method"],
    id: string,
    { n, now }: { n: number; now: number },
  ): Pick<Call, "answer"> & Partial<Call> {
    const group = this.#groups.get(id);
    const more =
      method === "update" ? { value: `n${n}` } : method === "rotate" ? { graceMs: n % 2 ? GRACE_MS : 0 } : {};
    if (!group) return { ...more, answer: NO_GROUP };
    if (method === "delete") {
      if (!this.#isMistaken("delete")) this.#groups.delete(id);
      return { answer: DONE };
    }
    if (method === "update") this.#put(id, { ...group, name: `n${n}` });
    else if (method === "rotate") {
      const graced = n % 2 ? { token: group.token, until: now + GRACE_MS } : undefined;
      this.#put(id, { ...group, token: `t${n}`, graced });
    } else if (!this.#isMistaken("revoke")) {
      const graced = this.#isMistaken("revoked grace") ? { token: group.token, until: now + 50 } : undefined;
      this.#put(id, { ...group, token: `t${n}`, graced });
    }
    return { ...more, answer: method === "revoke" ? withoutToken(this.#shown(id)) : this.#shown(id) };
  }

  #put(id: string, group: Group): void {
    this.#groups.set(id, group);
    this.#given.set(id, [...(this.#given.get(id) ?? []), group.token]);
  }

  #shown(id: string, created = false): Answer {
    const { teamId, token, name } = this.#groups.get(id) as Group;
    return shown({ id, teamId, token, name }, created);
  }

  #isMistaken(mistake: Mistake): boolean {
    return this.#mistake === mistake && this.#random.chance(0.5);
  }
}

function withoutToken(answer: Answer): Answer {
  return answer.seen ? { ...answer, seen: { ...answer.seen, token: undefined } } : answer;
}

const faultsOf = (seed: number, mistake?: Mistake) =>
  check({ calls: new Simulated(seed, mistake).history(), stored: [], allow: STRICT, workersEnd: true });

it("passes what a service does that keeps its promises", () => {
  for (let seed = 1; seed <= 100; seed++) expect(faultsOf(seed), `seed ${seed}`).toEqual([]);
});

it.each<Mistake>(["delete", "revoke", "revoked grace", "deleted token", "import", "imported token", "team id"])(
  "finds a service that is mistaken at times about: %s",
  (mistake) => {
    const found = Array.from({ length: 20 }, (_, i) => faultsOf(i + 1, mistake)).filter(({ length }) => length > 0);
    // Not everything that is wrong is seen by somebody.
    expect(found.length).toBeGreaterThan(10);
  },
);
