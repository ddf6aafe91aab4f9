import { byGroup, type Call, fateOf, isDone, isOk, madeBy, type Seen } from "./call.ts";
import { type Allowances, shortOf, type Violation } from "./violation.ts";

/** A token, or the change that gave one which nobody has been shown yet. */
type Token = string | Call;

/** A group at an instant. */
interface Group {
  /** Or the call that created it, whose answer did not come. */
  readonly teamId: number | Call;
  readonly token: Token;
  readonly name: string;
  readonly graced?: { readonly token: Token; readonly until: number } | undefined;
}

/** All that is there of a group at an instant. */
interface State {
  /** Undefined: it is not there. */
  readonly group: Group | undefined;
  /** How often it was created. */
  readonly life: number;
  /** The tokens and team ids that it had before. */
  readonly ended: ReadonlySet<Token | number>;
  /** The request ids of changes that were made, to the lives in which they were. */
  readonly requests: ReadonlyMap<string, number>;
  /** What is there again when the changes since are forgotten, of which none was acknowledged. */
  readonly before?: State | undefined;
}

const NOTHING: State = { group: undefined, life: 0, ended: new Set(), requests: new Map() };

/** A call in an order of calls. */
interface Step {
  readonly call: Call;
  /** It is at an instant from here, */
  readonly start: number;
  /** to here, */
  readonly end: number;
  /** or nowhere, unless it must be. */
  readonly must: boolean;
}

/** How many steps are tried for a group. It takes about as many as there are calls. */
const MOST_TRIED = 200_000;

/**
 * Whether the calls about each group can be put into an order, each in an instant between its start and its end, in which
 * a service that does one after the other answers as they were answered: Wing and Gong, "Testing and verifying concurrent
 * objects". No state is looked at twice for what is left of the calls (Lowe, "Testing for linearizability").
 */
export function checkOrder(calls: readonly Call[], allow: Allowances): Violation[] {
  // What is refused in another environment says nothing of the group.
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
  /** The tokens of imports: nothing else gives them. */
  readonly #given: ReadonlySet<string | undefined>;
  readonly #steps: readonly Step[];
  readonly #tried = new Set<string>();
  /** The furthest that an order came. */
  #furthest: { readonly left: readonly Step[]; readonly state: State };

  constructor(calls: readonly Call[], { mayForget, staleMs }: Allowances) {
    this.#mayForget = mayForget;
    this.#staleMs = staleMs;
    this.#numbers = new Map(calls.map((call, i) => [call, i]));
    this.#given = new Set(calls.map(({ given }) => given));
    this.#steps = calls.flatMap((call) => this.#stepOf(call)).sort((one, other) => one.start - other.start);
    this.#furthest = { left: this.#steps, state: NOTHING };
  }

  /** Why there is no order; undefined when there is one. */
  fault(): string | undefined {
    if (this.#search(this.#steps, NOTHING, Number.NEGATIVE_INFINITY)) return undefined;
    const { left, state } = this.#furthest;
    const due = left.filter(({ must, end }) => must && end === dueOf(left)).map(({ call }) => textOf(call));
    const { name, token, teamId } = state.group ?? {};
    const there = state.group
      ? `the name ${name}, the token ${hidden(token)} and the team id ${typeof teamId === "number" ? teamId : "untold"}`
      : "nothing";
    return `no order of its calls explains ${due.join(" and ")}, where there is ${there}`;
  }

  /** Whether what is left has an order. @param latest when the latest begins of those that are before it */
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
    // What changes nothing, first: it is seldom wrong.
    next.sort((one, other) => Number(one.after !== state) - Number(other.after !== state));
    return next.some(({ step, after }) => {
      const rest = left.filter((each) => each !== step);
      return this.#search(rest, after, Math.max(latest, step.start));
    });
  }

  /** What may be there after a call. */
  #after(state: State, step: Step): State[] {
    const { call } = step;
    const after = this.#apply(state, step);
    const forgotten = state.before ? this.#after(state.before, step) : [];
    if (!after) return forgotten;
    if (isAcknowledged(call)) return [{ ...after, before: undefined }, ...forgotten];
    return [!step.must && this.#mayForget ? { ...after, before: state } : after, ...forgotten];
  }

  /** What is there after a call; undefined when it would have been answered otherwise, or would have done nothing. */
  #apply(state: State, { call, start }: Step): State | undefined {
    const { group, life } = state;
    const { answer, method, value = "", token, requestId } = call;
    const madeIn = requestId === undefined ? undefined : state.requests.get(requestId);
    if (answer.reason === "USER_GROUP_NOT_FOUND") {
      // A retry is not answered for a group that was created anew since the first try.
      return !group || (madeIn !== undefined && madeIn !== life) ? state : undefined;
    }
    if (answer.reason === "TOKEN_NOT_FOUND")
      return group && (group.token === token || madeIn === life) ? undefined : state;
    if (method === "get" && !group) {
      if (isDone(call) && !answer.created) return undefined;
      return this.#created(state, { name: value, teamId: call, token: call }, answer.seen);
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
    if (!group) return this.#created(state, { name: value, token: given, teamId: call });
    return { ...state, group: { teamId: group.teamId, name: value, token: given }, ended: ended(state, group.token) };
  }

  /** A rotation, or a revocation: it is not told which token that gave. */
  #rotated(state: State, call: Call, madeIn: number | undefined): State | undefined {
    const { answer, token, requestId, graceMs = 0 } = call;
    if (madeIn === state.life) return isOk(call) ? this.#shown(state, answer.seen) : undefined;
    const from = token === undefined ? state : this.#presented(state, token);
    const group = from?.group;
    if (!from || !group) return undefined;
    const given = answer.seen?.token;
    if (given !== undefined && (given === group.token || from.ended.has(given))) return undefined;
    const graced = graceMs > 0 ? { token: group.token, until: madeBy(call) + graceMs } : undefined;
    const requests = requestId === undefined ? from.requests : new Map([...from.requests, [requestId, from.life]]);
    const after = { ...group, token: given ?? call, graced };
    return this.#shown({ ...from, group: after, ended: ended(from, group.token), requests }, answer.seen);
  }

  #resolved(state: State, { token = "", answer }: Call, start: number): State | undefined {
    const graced = state.group?.graced;
    const current = this.#presented(state, token);
    if (current) return this.#shown(current, answer.seen);
    const isGraced = graced && start <= graced.until && this.#is(graced.token, token, state);
    return isGraced ? this.#shown(state, answer.seen) : undefined;
  }

  /** The state if the group has this token. */
  #presented(state: State, token: string): State | undefined {
    const { group } = state;
    if (!group || !this.#is(group.token, token, state)) return undefined;
    return group.token === token ? state : { ...state, group: { ...group, token } };
  }

  /** Whether a token is this one, or may be. */
  #is(token: Token, text: string, state: State): boolean {
    if (typeof token === "string") return token === text;
    return !this.#given.has(text) && !state.ended.has(text);
  }

  /** The state if an answer may show it. */
  #shown(state: State, seen: Seen | undefined): State | undefined {
    if (!seen) return state;
    const { token, teamId, name } = seen;
    const known = token === undefined ? state : this.#presented(state, token);
    const group = known?.group;
    if (!known || !group || group.name !== name) return undefined;
    if (group.teamId === teamId) return known;
    const isNew = typeof group.teamId !== "number" && !state.ended.has(teamId);
    return isNew ? { ...known, group: { ...group, teamId } } : undefined;
  }

  #stepOf(call: Call): Step[] {
    const { reason } = call.answer;
    const must = isDone(call) || reason === "USER_GROUP_NOT_FOUND" || reason === "TOKEN_NOT_FOUND";
    if (!must && (call.method === "resolve" || fateOf(call) !== "perhaps")) return [];
    // A master that does not know of the next one answers reads, and takes changes that it does not acknowledge.
    const isCurrent = call.isFinal || isAcknowledged(call);
    return [{ call, start: call.start - (isCurrent ? 0 : this.#staleMs), end: must ? call.end : madeBy(call), must }];
  }

  #keyOf({ group, life, requests, before }: State): string {
    const { teamId, token, name, graced } = group ?? {};
    const tokens = [teamId, token, graced?.token].map((each) => this.#numbers.get(each as Call) ?? `"${each}"`);
    return `${tokens} ${name} ${graced?.until} ${life} ${[...requests]} ${before ? this.#keyOf(before) : ""}`;
  }
}

/** By when one of these calls must have been at the latest. */
function dueOf(left: readonly Step[]): number {
  return Math.min(...left.filter(({ must }) => must).map(({ end }) => end));
}

function isAcknowledged(call: Call): boolean {
  return isDone(call) && (call.answer.created || (call.method !== "get" && call.method !== "resolve"));
}

function textOf({ method, start, end, answer, token }: Call): string {
  const shown = answer.seen
    ? `${answer.seen.name}, ${hidden(answer.seen.token)}, ${answer.seen.teamId}`
    : answer.reason;
  return `${method}${token === undefined ? "" : ` of ${hidden(token)}`} at ${start.toFixed(1)} to ${end.toFixed(1)} ms: ${shown ?? "done"}`;
}

function hidden(token: Token | undefined): string {
  return typeof token === "string" ? shortOf(token) : "untold";
}

function ended({ ended: before }: State, ...more: readonly (Token | number)[]): ReadonlySet<Token | number> {
  return new Set([...before, ...more]);
}
