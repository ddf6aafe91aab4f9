import { expect } from "vitest";
import type { Environment } from "../../src/domain/environment.ts";
import { StoreUnavailable, TokenNotFound, TooFewReplicas } from "../../src/domain/errors.ts";
import { byId, byToken, newEnvironment, newGroup, RING } from "./contract/context.ts";
import { newStoreClient } from "./opened.ts";
import { TestUserGroups } from "./stores.ts";
import { pause, waitFor } from "./wait.ts";

/** What a call came to: an answer, or what is known of its change. */
type Told = "ok" | "not_made" | "unknown" | "read failed";

/** A group that one loop changes, and what it was told. */
interface Written {
  readonly id: string;
  teamId: number;
  /** The last change that was acknowledged. */
  acknowledged: number;
  /** Later ones that may have been made. */
  readonly perhaps: Set<number>;
  /** Those that were said not to be made. */
  readonly notMade: Set<number>;
  next: number;
  token: string;
  /** Whether the token was only read, and so may be of a change that a failover loses. */
  isRead: boolean;
  /** Tokens that an acknowledged rotation ended. */
  readonly ended: string[];
}

/** How a load is made. */
export interface LoadOptions {
  readonly stores: readonly TestUserGroups[];
  /** Default: one of 64 partitions. */
  readonly environment?: Environment;
  /** How many groups are changed, by one loop each. Default 24. */
  readonly groups?: number;
}

/**
 * A steady load of every kind of call, and a check of all that was answered: what was acknowledged is kept, what was
 * said not to be made is not, ended tokens are ended, and ids are given once.
 */
export class Load {
  readonly environment: Environment;
  /** How often each kind of answer was given. */
  readonly counts: { [told in Told]: number } = { ok: 0, not_made: 0, unknown: 0, "read failed": 0 };
  /** Why calls failed, and how often. */
  readonly causes: { [text: string]: number } = {};
  readonly #stores: readonly TestUserGroups[];
  readonly #groups: Written[];
  readonly #made = new Map<string, number>();
  #isEnding = false;
  #loops: Promise<void>[] = [];

  constructor({ stores, environment = newEnvironment(), groups = 24 }: LoadOptions) {
    this.environment = environment;
    this.#stores = stores;
    this.#groups = Array.from({ length: groups }, (_, i) => ({
      id: `group ${i}`,
      teamId: 0,
      acknowledged: 0,
      perhaps: new Set<number>(),
      notMade: new Set<number>(),
      next: 1,
      token: "",
      isRead: false,
      ended: [],
    }));
  }

  /** Creates the groups and begins. */
  async start(): Promise<void> {
    for (const [i, written] of this.#groups.entries()) {
      const { group } = await this.#store(i).getOrCreate(this.environment, newGroup(written.id, { name: "0" }));
      Object.assign(written, { token: group.token, teamId: group.teamId });
    }
    this.#loops = this.#groups.map((written, i) => this.#loop(written, i));
  }

  /** Answered calls so far; to wait for some more of them is to wait until calls are served. */
  answered(): number {
    return this.counts.ok;
  }

  /** Ends the load and checks all that is stored against all that was told. */
  async stop(): Promise<void> {
    this.#isEnding = true;
    await Promise.all(this.#loops);
    for (const written of this.#groups) await this.#check(written);
    const teamIds = [...this.#groups.map(({ teamId }) => teamId), ...this.#made.values()];
    expect(new Set(teamIds).size).toBe(teamIds.length);
    for (const [id, teamId] of this.#made) {
      const { group, created } = await this.#store(0).getOrCreate(this.environment, newGroup(id));
      expect({ id, created, teamId: group.teamId }).toEqual({ id, created: false, teamId });
    }
  }

  async #loop(written: Written, i: number): Promise<void> {
    const calls = [this.#update, this.#read, this.#rotate, this.#create];
    for (let n = i; !this.#isEnding; n++) {
      const call = calls[n % calls.length] as (typeof calls)[number];
      const told = await call.call(this, written, this.#store(n));
      this.counts[told]++;
      // A failure may be told at once.
      await pause(told === "ok" ? 1 : 20);
    }
  }

  async #update(written: Written, store: TestUserGroups): Promise<Told> {
    const version = written.next++;
    const told = await this.#tell(
      store.update(this.environment, written.id, { name: String(version) }),
      ({ teamId }) => {
        expect(teamId).toBe(written.teamId);
        written.acknowledged = version;
        written.perhaps.clear();
      },
    );
    if (told === "unknown") written.perhaps.add(version);
    if (told === "not_made") written.notMade.add(version);
    return told;
  }

  #read(written: Written, store: TestUserGroups): Promise<Told> {
    return this.#tell(store.getOrCreate(this.environment, newGroup(written.id)), ({ group, created }) => {
      expect(created).toBe(false);
      this.#checkName(written, group.name);
    });
  }

  async #rotate(written: Written, store: TestUserGroups): Promise<Told> {
    const { id, token } = written;
    const isByToken = written.next % 2 === 0;
    const call = store.rotate(this.environment, isByToken ? byToken(token) : byId(id));
    const told = await this.#tell(call, (group) => {
      written.ended.push(token);
      written.token = group.token;
      written.isRead = false;
    }).catch(async (error: unknown) => {
      if (!(error instanceof TokenNotFound && written.isRead)) throw error;
      await this.#learnToken(written, store);
      return "unknown" as const;
    });
    if (told === "ok")
      return this.#tell(store.resolve(this.environment, written.token), (viewer) => expect(viewer.providedId).toBe(id));
    // Nothing else tells which token it has now.
    if (told === "unknown") await this.#learnToken(written, store);
    return told;
  }

  async #create(written: Written, store: TestUserGroups): Promise<Told> {
    const id = `${written.id} made ${written.next++}`;
    return this.#tell(store.getOrCreate(this.environment, newGroup(id)), ({ group }) => {
      this.#made.set(id, group.teamId);
    });
  }

  async #learnToken(written: Written, store: TestUserGroups): Promise<void> {
    for (;;) {
      try {
        written.isRead = true;
        written.token = (await store.getOrCreate(this.environment, newGroup(written.id))).group.token;
        return;
      } catch (error) {
        if (!(error instanceof StoreUnavailable)) throw error;
        await pause(20);
      }
    }
  }

  async #tell<T>(call: Promise<T>, answered: (value: T) => void): Promise<Told> {
    let value: T;
    try {
      value = await call;
    } catch (error) {
      if (!(error instanceof StoreUnavailable || error instanceof TooFewReplicas)) throw error;
      const cause = `${error.name}: ${(error.cause as Error)?.message}`.replace(/\d+/g, "#");
      this.causes[cause] = (this.causes[cause] ?? 0) + 1;
      return error.outcome ?? "read failed";
    }
    answered(value);
    return "ok";
  }

  #checkName({ id, acknowledged, perhaps, notMade }: Written, name: string): void {
    const version = Number(name);
    expect({ id, version, isNotMade: notMade.has(version) }).toEqual({ id, version, isNotMade: false });
    if (version !== acknowledged)
      expect([...perhaps], `${id} has ${version}, acknowledged ${acknowledged}`).toContain(version);
  }

  async #check(written: Written): Promise<void> {
    const store = this.#store(0);
    const { group } = await store.getOrCreate(this.environment, newGroup(written.id));
    this.#checkName(written, group.name);
    expect(group.teamId).toBe(written.teamId);
    expect((await store.resolve(this.environment, group.token)).providedId).toBe(written.id);
    for (const token of written.ended) {
      await expect(store.resolve(this.environment, token)).rejects.toBeInstanceOf(TokenNotFound);
    }
  }

  #store(i: number): TestUserGroups {
    return this.#stores[i % this.#stores.length] as TestUserGroups;
  }
}

/** Two workers on one Redis, whose changes wait for so many replicas. */
export async function openStores(redis: { readonly url: string }, minReplicas = 1): Promise<TestUserGroups[]> {
  const clients = await Promise.all([1, 2].map(() => newStoreClient(redis, { timeoutMs: 500, minReplicas })));
  return clients.map((client) => new TestUserGroups(client, RING));
}

/** Waits until calls of every kind are answered again. */
export async function servedAgain(load: Load): Promise<void> {
  const before = load.answered();
  await waitFor("calls are answered again", () => load.answered() > before + 300);
}
