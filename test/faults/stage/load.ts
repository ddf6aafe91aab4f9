import { randomBytes } from "node:crypto";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Random } from "@user-group-service/testing/random";
import { pause, waitFor } from "@user-group-service/testing/wait";
import { byGroup, type Call, fateOf, isOk } from "../history/call.ts";
import { Administration } from "./administration.ts";
import { type Known, remember } from "./known.ts";
import { MAPPED, record, requested } from "./record.ts";
import { retry } from "./retry.ts";
import { ENVIRONMENTS, type EnvironmentId, type Worker } from "./workers.ts";

const GROUPS = 24;
/** Number of callers. Each caller pauses for about `PAUSE_MS` between two calls. */
const CALLERS = 32;
const PAUSE_MS = 50;
const GRACE_MS = 400;
/**
 * Number of groups per environment that the administrator uses. `shared` is the number of groups that callers use as
 * well. `own` is the number of groups that only the administrator uses.
 */
const ADMINISTERED = { shared: 6, own: 6 };
/** After a fault, a worker counts as up again when it has answered this number of reads and this number of changes. */
const SERVED = 10;
/**
 * Number of callers that read all groups at the end. The number is small, so that no read waits long on a busy machine.
 */
const READERS = 4;

type Target = { readonly token: string } | { readonly id: string };

/**
 * Calls all workers at a steady rate, and records every answer. Many callers create, read, change and rotate the same
 * groups. An administrator deletes, suspends and imports some of these groups.
 */
export class Load {
  readonly calls: Call[] = [];
  readonly #workers: readonly Worker[];
  readonly #random: Random;
  readonly #groups: readonly Known[];
  readonly #administered: readonly Known[];
  readonly #administration: Administration;
  #names = 0;
  #isEnding = false;
  #callers: Promise<void>[] = [];

  constructor(workers: readonly Worker[], seed: number) {
    this.#workers = workers;
    this.#random = new Random(seed);
    const groups = (environment: EnvironmentId, name: string, count: number) =>
      Array.from({ length: count }, (_, i): Known => ({ environment, id: `${name} ${i}`, tokens: [] }));
    const shared = ENVIRONMENTS.flatMap((id) => groups(id, "shared", ADMINISTERED.shared));
    const own = ENVIRONMENTS.flatMap((id) => groups(id, "own", ADMINISTERED.own));
    const others = ENVIRONMENTS.flatMap((id) => groups(id, "group", GROUPS - ADMINISTERED.shared));
    this.#groups = [...others, ...shared];
    this.#administered = [...shared, ...own];
    this.#administration = new Administration({
      random: this.#random,
      worker: () => this.#worker(),
      name: () => this.#name(),
      note: (calls) => this.calls.push(...calls),
    });
  }

  async start(): Promise<void> {
    await Promise.all(this.#groups.map((group) => this.#get(group, this.#worker())));
    this.#callers = Array.from({ length: CALLERS }, () => this.#call());
  }

  /** Waits until every worker has answered reads and changes again. */
  async servedAgain(): Promise<void> {
    const from = this.calls.length;
    const served = (worker: string, isCounted: (call: Call) => boolean) =>
      this.calls.slice(from).filter((call) => call.worker === worker && isOk(call) && isCounted(call)).length >= SERVED;
    await waitFor("every worker answers reads and changes", () =>
      this.#workers.every(
        ({ name }) =>
          served(name, ({ method }) => method === "get") && served(name, ({ method }) => method === "update"),
      ),
    );
  }

  async end(): Promise<void> {
    this.#isEnding = true;
    await Promise.all(this.#callers);
  }

  /** Reads all groups once through all workers. Called after the load, while Redis is healthy. */
  async readAll(): Promise<void> {
    // A read of a missing group creates the group. The final reads must not create groups. So read only groups that a
    // call has created or may have created.
    const creations = this.calls.filter(
      (call) => (call.method === "get" || call.method === "import") && fateOf(call) !== "not made",
    );
    const reads = [...byGroup(creations)].map(([group, [call]]) => async () => {
      const environment = call?.environment as EnvironmentId;
      const known: Known = { environment, id: group.slice(environment.length + 1), tokens: [] };
      for (const worker of this.#workers) await this.#get(known, worker, true);
      // Resolve the latest token that the answers have shown. If the group is suspended, they have shown no token.
      for (const token of known.tokens.slice(-1)) {
        for (const worker of this.#workers) await this.#resolve(known, token, { worker, isFinal: true });
      }
    });
    const reader = async () => {
      for (let next = reads.pop(); next; next = reads.pop()) await next();
    };
    await Promise.all(Array.from({ length: READERS }, reader));
    for (const known of new Set([...this.#groups, ...this.#administered, ...this.#administration.made])) {
      for (const token of known.tokens) await this.#resolve(known, token, { worker: this.#worker(), isFinal: true });
    }
  }

  async #call(): Promise<void> {
    const acts = [
      ...Array<() => Promise<unknown>>(20).fill(() => this.#get(this.#group(), this.#worker())),
      ...Array<() => Promise<unknown>>(22).fill(() => this.#update(this.#group())),
      ...Array<() => Promise<unknown>>(20).fill(() => this.#view()),
      ...Array<() => Promise<unknown>>(16).fill(() => this.#rotateOnce()),
      ...Array<() => Promise<unknown>>(8).fill(() => this.#rotateAndRetry()),
      ...Array<() => Promise<unknown>>(4).fill(() => this.#race()),
      ...Array<() => Promise<unknown>>(6).fill(() => this.#create()),
      ...Array<() => Promise<unknown>>(5).fill(() => this.#administration.act(this.#administered)),
      ...Array<() => Promise<unknown>>(5).fill(() => this.#getAndView(this.#random.pick(this.#administered))),
    ];
    while (!this.#isEnding) {
      await this.#random.pick(acts)();
      await pause(PAUSE_MS * (0.5 + this.#random.next()));
    }
  }

  /** Creates one group with up to three concurrent calls. */
  async #create(): Promise<void> {
    const environment = this.#random.pick(ENVIRONMENTS);
    const known: Known = { environment, id: `new ${randomBytes(6).toString("hex")}`, tokens: [] };
    const times = 1 + this.#random.below(3);
    await Promise.all(Array.from({ length: times }, () => this.#get(known, this.#worker())));
  }

  /** Gets a group. If the group was deleted, this call creates it again. Then presents one of the group's tokens. */
  async #getAndView(known: Known): Promise<void> {
    await this.#get(known, this.#worker());
    await this.#view(known);
  }

  /** Presents the latest token or an older token of a group. Sometimes presents the token in the other environment. */
  async #view(known = this.#group()): Promise<void> {
    const latest = known.tokens.at(-1);
    if (latest === undefined) return;
    const token = this.#random.chance(0.7) ? latest : this.#random.pick(known.tokens);
    const isForeign = this.#random.chance(0.1);
    const environment = isForeign ? ENVIRONMENTS.find((other) => other !== known.environment) : known.environment;
    await this.#resolve(known, token, { worker: this.#worker(), environment: environment as EnvironmentId });
  }

  async #rotateOnce(): Promise<void> {
    const known = this.#group();
    await this.#rotate(known, this.#target(known), { graceMs: this.#grace() });
  }

  /** Rotates a token with a request id, so that `retry` can repeat the call. Sometimes makes two calls concurrently. */
  async #rotateAndRetry(): Promise<void> {
    const known = this.#group();
    const target = this.#target(known);
    const request = { graceMs: this.#grace(), requestId: randomBytes(9).toString("hex") };
    const isDoubled = this.#random.chance(0.3);
    await retry(this.#random, () =>
      Promise.all(Array.from({ length: isDoubled ? 2 : 1 }, () => this.#rotate(known, target, request))),
    );
  }

  async #race(): Promise<void> {
    const known = this.#group();
    const token = known.tokens.at(-1);
    if (token === undefined) return;
    await Promise.all([1, 2, 3].map(() => this.#rotate(known, { token }, { graceMs: 0 })));
  }

  #get(known: Known, worker: Worker, isFinal = false): Promise<Call> {
    const { environment, id, tokens } = known;
    const value = this.#name();
    return this.#record(tokens, requested("get", known, worker, { value, isFinal }), async (options) => {
      const request = { userGroupId: id, name: value, mapping: { [MAPPED]: value } };
      const { userGroup, newUserGroup } = await worker.clients(environment).groups.getUserGroup(request, options);
      return { shown: userGroup, created: newUserGroup };
    });
  }

  #update(known: Known): Promise<Call> {
    const { environment, id, tokens } = known;
    const value = this.#name();
    const worker = this.#worker();
    return this.#record(tokens, requested("update", known, worker, { value }), async (options) => {
      const request = { userGroupId: id, name: value, mapping: { [MAPPED]: value } };
      return { shown: (await worker.clients(environment).groups.updateUserGroup(request, options)).userGroup };
    });
  }

  #rotate(
    known: Known,
    target: Target,
    { graceMs, requestId = "" }: { graceMs: number; requestId?: string },
  ): Promise<Call> {
    const worker = this.#worker();
    const token = "token" in target ? target.token : undefined;
    const more = { token, requestId: requestId || undefined, graceMs };
    return this.#record(known.tokens, requested("rotate", known, worker, more), async (options) => {
      const group =
        "id" in target
          ? ({ case: "userGroupId", value: target.id } as const)
          : ({ case: "currentToken", value: target.token } as const);
      const request = { group, previousTokenTtl: durationFromMs(graceMs), requestId };
      const { groups } = worker.clients(known.environment);
      return { shown: (await groups.rotateUserGroupToken(request, options)).userGroup };
    });
  }

  #resolve(
    known: Known,
    token: string,
    {
      worker,
      environment = known.environment,
      isFinal = false,
    }: { worker: Worker; environment?: EnvironmentId; isFinal?: boolean },
  ): Promise<Call> {
    const more = { environment, token, isFinal };
    return this.#record(known.tokens, requested("resolve", known, worker, more), async (options) => ({
      shown: await worker.clients(environment).viewers.resolveViewer({ token }, options),
    }));
  }

  async #record(tokens: string[], ...call: Parameters<typeof record>): Promise<Call> {
    const made = await record(...call);
    this.calls.push(made);
    const token = made.answer.seen?.token;
    if (token !== undefined) remember(tokens, token);
    return made;
  }

  #target(known: Known): Target {
    const token = known.tokens.at(-1);
    return token === undefined || this.#random.chance(0.35) ? { id: known.id } : { token };
  }

  #grace(): number {
    return this.#random.chance(0.3) ? GRACE_MS : 0;
  }

  #name(): string {
    return `v${++this.#names}`;
  }

  #group(): Known {
    return this.#random.pick(this.#groups);
  }

  #worker(): Worker {
    return this.#random.pick(this.#workers);
  }
}
