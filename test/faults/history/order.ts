import { byGroup, type Call, fateOf, isDone, isOk, madeBy, type Seen } from "./call.ts";
import { type Allowances, shortOf, type Violation } from "./violation.ts";

/** The value of a token. If no answer has shown the value yet, this is the call that created the token. */
type Token = string | Call;

interface Group {
  /** The team id. If no answer has shown the team id yet, this is the call that created the group. */
  readonly teamId: number | Call;
  readonly token: Token;
  readonly name: string;
  readonly isSuspended: boolean;
  readonly inGrace?: { readonly token: Token; readonly until: number } | undefined;
}

/** State of a group after the calls that the search has put in order so far. */
interface State {
  readonly group: Group | undefined;
  /** Number of creations of the group. */
  readonly life: number;
  /** Tokens and team ids that are no longer valid. */
  readonly ended: ReadonlySet<Token | number>;
  /** Request ids of committed changes, each with the `life` of the group at that change. */
  readonly requests: ReadonlyMap<string, number>;
  /** The state without the latest unacknowledged changes. If a failover loses these changes, this is the new state. */
  readonly before?: State | undefined;
}

const NOTHING: State = { group: undefined, life: 0, ended: new Set(), requests: new Map() };

const SUSPENDED = "USER_GROUP_SUSPENDED";

/** Reasons of errors that show the state of a group to the caller. */
const SHOWING: ReadonlySet<string> = new Set(["USER_GROUP_NOT_FOUND", "TOKEN_NOT_FOUND", SUSPENDED]);

interface Step {
  readonly call: Call;
  readonly start: number;
  readonly end: number;
  /** True if the answer proves that the call took effect. Every valid order must contain such a call. */
  readonly must: boolean;
}

/** Maximum number of search steps per group. A valid history needs about one step per call. */
const MOST_TRIED = 200_000;

/**
 * Checks that the calls to each group have a valid order. An order is valid if a service that runs these calls one
 * after another in this order would give the same answers. Each call must take effect between the start and the end of
 * the call (Wing and Gong, "Testing and verifying concurrent objects"). The search tries each combination of a state
 * and remaining calls only once (Lowe, "Testing for linearizability").
 */
export function checkOrder(calls: readonly Call[], allow: Allowances): Violation[] {
  // Leave out calls that present a token of another environment. The service refuses these calls in every state of the
  // group, so they say nothing about the order.
  const own = calls.filter(({ group, environment }) => group.startsWith(`${environment}/`));
  return [...byGroup(own)].flatMap(([group, ofGroup]): Violation[] => {
    const text = new Order(ofGroup, allow).fault();
    return text === undefined ? [] : [{ kind: "no order", text: `${group}: ${text}` }];
  });
}

class Order {
  readonly #mayForget: boolean;
  readonly #staleMs: number;
  readonly #numbers: ReadonlyMap<Token, number>;
  /** Tokens that this service has not issued. Only imports can set them. */
  readonly #given: ReadonlySet<string | undefined>;
  readonly #steps: readonly Step[];
  readonly #tried = new Set<string>();
  /** The point of the search at which the fewest calls remained. */
  #furthest: { readonly left: readonly Step[]; readonly state: State };

  constructor(calls: readonly Call[], { mayForget, staleMs }: Allowances) {
    this.#mayForget = mayForget;
    this.#staleMs = staleMs;
    this.#numbers = new Map(calls.map((call, i) => [call, i]));
    this.#given = new Set(calls.map(({ given }) => given));
    this.#steps = calls.flatMap((call) => this.#stepOf(call)).sort((one, other) => one.start - other.start);
    this.#furthest = { left: this.#steps, state: NOTHING };
  }

  /** Returns the reason why no order is valid, or undefined if an order is valid. */
  fault(): string | undefined {
    if (this.#search(this.#steps, NOTHING, Number.NEGATIVE_INFINITY)) return undefined;
    const { left, state } = this.#furthest;
    const due = left.filter(({ must, end }) => must && end === dueOf(left)).map(({ call }) => textOf(call));
    const { name, token, teamId, isSuspended } = state.group ?? {};
    const shown = typeof teamId === "number" ? teamId : "unknown";
    const there = state.group
      ? `the group ${isSuspended ? "is suspended and " : ""}has the name ${name}, the token ${hidden(token)} and the team id ${shown}`
      : "the group does not exist";
    return `no order of its calls explains ${due.join(" and ")}, if ${there}`;
  }

  /** @param latest the latest start of the calls that the search has put in order so far */
  #search(left: readonly Step[], state: State, latest: number): boolean {
    if (!left.some(({ must }) => must)) return true;
    const key = `${left.map(({ call }) => this.#numbers.get(call))} ${this.#keyOf(state)}`;
    if (this.#tried.has(key) || this.#tried.size > MOST_TRIED) return false;
    this.#tried.add(key);
    if (left.length < this.#furthest.left.length) this.#furthest = { left, state };
    const due = dueOf(left);
    const next = left
      .filter(({ start, end }) => start <= due && end >= latest)
      .flatMap((step) => this.#after(state, step).map((after) => ({ step, after })));
    // Begin with the calls that do not change the state, because such calls seldom lead to a wrong order.
    next.sort((one, other) => Number(one.after !== state) - Number(other.after !== state));
    return next.some(({ step, after }) => {
      const rest = left.filter((each) => each !== step);
      return this.#search(rest, after, Math.max(latest, step.start));
    });
  }

  /** Returns the possible states after a call. If changes may be lost, several states are possible. */
  #after(state: State, step: Step): State[] {
    const { call } = step;
    const after = this.#apply(state, step);
    const forgotten = state.before ? this.#after(state.before, step) : [];
    if (!after) return forgotten;
    if (isAcknowledged(call)) return [{ ...after, before: undefined }, ...forgotten];
    return [!step.must && this.#mayForget ? { ...after, before: state } : after, ...forgotten];
  }

  /** Returns the state after a call, or undefined if the call cannot have had this answer in this state. */
  #apply(state: State, { call, start }: Step): State | undefined {
    const { group, life } = state;
    const { answer, method, value = "", token, requestId } = call;
    const madeIn = requestId === undefined ? undefined : state.requests.get(requestId);
    if (answer.reason === "USER_GROUP_NOT_FOUND") {
      // If the group was created again after the first attempt, a retry fails with NOT_FOUND.
      return !group || (madeIn !== undefined && madeIn !== life) ? state : undefined;
    }
    if (answer.reason === "TOKEN_NOT_FOUND")
      return group && (group.token === token || madeIn === life) ? undefined : state;
    if (method === "get" && !group) {
      if (isDone(call) && !answer.created) return undefined;
      return this.#created(state, { name: value, teamId: call, token: call, isSuspended: false }, answer.seen);
    }
    if (method === "import") return this.#imported(state, call);
    if (!group || answer.created) return undefined;
    switch (method) {
      case "get":
        return isOk(call) ? this.#shown(state, answer.seen) : undefined;
      case "resolve":
        return this.#resolved(state, call, start);
      case "update":
        return this.#shown({ ...state, group: { ...group, name: value } }, answer.seen);
      case "suspend":
      case "resume":
        return this.#shown({ ...state, group: { ...group, isSuspended: method === "suspend" } }, answer.seen);
      case "delete":
        return { ...state, group: undefined, ended: ended(state, group.token, group.teamId) };
      default:
        return this.#rotated(state, call, madeIn);
    }
  }

  #created(state: State, group: Group, seen?: Seen): State | undefined {
    const { ended: known, life } = state;
    if (seen && (known.has(seen.token ?? "") || known.has(seen.teamId))) return undefined;
    const given = seen ? { ...group, token: seen.token ?? group.token, teamId: seen.teamId } : group;
    return this.#shown({ ...state, group: given, life: life + 1 }, seen);
  }

  #imported(state: State, call: Call): State | undefined {
    const { given = "", value = "" } = call;
    const { group } = state;
    if (!group) return this.#created(state, { name: value, token: given, teamId: call, isSuspended: false });
    const { teamId, isSuspended } = group;
    return { ...state, group: { teamId, name: value, token: given, isSuspended }, ended: ended(state, group.token) };
  }

  #rotated(state: State, call: Call, madeIn: number | undefined): State | undefined {
    const { answer, token, requestId, graceMs = 0 } = call;
    if (madeIn === state.life) return isOk(call) ? this.#shown(state, answer.seen) : undefined;
    const from = token === undefined ? state : this.#presented(state, token);
    const group = from?.group;
    if (!from || !group) return undefined;
    const given = answer.seen?.token;
    if (given !== undefined && (given === group.token || from.ended.has(given))) return undefined;
    const inGrace = graceMs > 0 ? { token: group.token, until: madeBy(call) + graceMs } : undefined;
    const requests = requestId === undefined ? from.requests : new Map([...from.requests, [requestId, from.life]]);
    const after = { ...group, token: given ?? call, inGrace };
    return this.#shown({ ...from, group: after, ended: ended(from, group.token), requests }, answer.seen);
  }

  #resolved(state: State, { token = "", answer }: Call, start: number): State | undefined {
    // If and only if the group is suspended, the answer has the reason SUSPENDED.
    if (state.group?.isSuspended !== (answer.reason === SUSPENDED)) return undefined;
    const inGrace = state.group?.inGrace;
    const current = this.#presented(state, token);
    if (current) return this.#shown(current, answer.seen);
    const isGraced = inGrace && start <= inGrace.until && this.#is(inGrace.token, token, state);
    return isGraced ? this.#shown(state, answer.seen) : undefined;
  }

  /** Returns the state in which the group has this token, or undefined if the group cannot have this token. */
  #presented(state: State, token: string): State | undefined {
    const { group } = state;
    if (!group || !this.#is(group.token, token, state)) return undefined;
    return group.token === token ? state : { ...state, group: { ...group, token } };
  }

  /** Returns whether `text` can be the value of `token`. */
  #is(token: Token, text: string, state: State): boolean {
    if (typeof token === "string") return token === text;
    return !this.#given.has(text) && !state.ended.has(text);
  }

  /**
   * Returns the state in which the group has the values in the answer, or undefined if the group cannot have these
   * values.
   */
  #shown(state: State, seen: Seen | undefined): State | undefined {
    if (!seen) return state;
    const { token, teamId, name, isSuspended } = seen;
    const known = token === undefined ? state : this.#presented(state, token);
    const group = known?.group;
    if (!known || !group || group.name !== name) return undefined;
    if (isSuspended !== undefined && isSuspended !== group.isSuspended) return undefined;
    if (group.teamId === teamId) return known;
    const isNew = typeof group.teamId !== "number" && !state.ended.has(teamId);
    return isNew ? { ...known, group: { ...group, teamId } } : undefined;
  }

  #stepOf(call: Call): Step[] {
    const { reason } = call.answer;
    const must = isDone(call) || (reason !== undefined && SHOWING.has(reason));
    if (!must && (call.method === "resolve" || fateOf(call) !== "perhaps")) return [];
    // For up to `#staleMs`, a replaced master answers reads from its old state. The replaced master also makes changes
    // to its old state, but does not acknowledge these changes.
    const isCurrent = call.isFinal || isAcknowledged(call);
    return [{ call, start: call.start - (isCurrent ? 0 : this.#staleMs), end: must ? call.end : madeBy(call), must }];
  }

  #keyOf({ group, life, requests, before }: State): string {
    const { teamId, token, name, isSuspended, inGrace } = group ?? {};
    const tokens = [teamId, token, inGrace?.token].map((each) => this.#numbers.get(each as Call) ?? `"${each}"`);
    return `${tokens} ${name} ${isSuspended} ${inGrace?.until} ${life} ${[...requests]} ${before ? this.#keyOf(before) : ""}`;
  }
}

/**
 * Returns the time at which the first of the remaining `must` calls ends. The search must put this call in order before
 * any call that starts later than this time.
 */
function dueOf(left: readonly Step[]): number {
  return Math.min(...left.filter(({ must }) => must).map(({ end }) => end));
}

/** Methods whose success does not prove a change. */
const UNACKNOWLEDGED: ReadonlySet<Call["method"]> = new Set(["get", "resolve", "resume"]);

function isAcknowledged(call: Call): boolean {
  return isDone(call) && (call.answer.created || !UNACKNOWLEDGED.has(call.method));
}

function textOf({ method, start, end, answer, token }: Call): string {
  const shown = answer.seen
    ? `${answer.seen.name}, ${hidden(answer.seen.token)}, ${answer.seen.teamId}`
    : answer.reason;
  return `${method}${token === undefined ? "" : ` of ${hidden(token)}`} at ${start.toFixed(1)} to ${end.toFixed(1)} ms: ${shown ?? "done"}`;
}

function hidden(token: Token | undefined): string {
  return typeof token === "string" ? shortOf(token) : "unknown";
}

function ended({ ended: before }: State, ...more: readonly (Token | number)[]): ReadonlySet<Token | number> {
  return new Set([...before, ...more]);
}
