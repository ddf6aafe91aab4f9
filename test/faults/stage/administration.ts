import { randomBytes } from "node:crypto";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import type { Random } from "@user-group-service/testing/random";
import { ImportMode } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type Call, isDone } from "../history/call.ts";
import { type Known, remember } from "./known.ts";
import { asked, importAnswer, MAPPED, record, recordAll } from "./record.ts";
import { retry } from "./retry.ts";
import type { Worker } from "./workers.ts";

/** How many groups one import is of at the most. */
const IMPORTED = 3;

/** What the administration of groups has of the load that it is a part of. */
export interface AdministrationParts {
  readonly random: Random;
  /** Some worker. */
  worker(): Worker;
  /** A new name for a group. */
  name(): string;
  /** Takes calls into the history. */
  note(calls: readonly Call[]): void;
}

/** What an operator does to groups while others use them: deletes, revokes and imports them. */
export class Administration {
  /** Groups that were imported and that nobody asks for. */
  readonly made: Known[] = [];
  readonly #parts: AdministrationParts;

  constructor(parts: AdministrationParts) {
    this.#parts = parts;
  }

  /** Does something to some of these groups. */
  async act(groups: readonly Known[]): Promise<void> {
    const { random } = this.#parts;
    const known = random.pick(groups);
    const acts = [
      () => this.#delete(known),
      () => this.#revoke(known, ""),
      () => this.#revokeAndRetry(known),
      () => this.#import(this.#some(groups, known)),
      () => this.#import(this.#some(groups, known)),
      () => this.#contest(known),
    ];
    await random.pick<() => Promise<unknown>>(acts)();
  }

  async #delete(known: Known): Promise<void> {
    const worker = this.#parts.worker();
    const { admin, environment } = worker.clients(known.environment);
    const call = await record(asked("delete", known, worker, {}), async (options) => {
      await admin.deleteUserGroup({ environment, userGroupId: known.id }, options);
      return { shown: undefined };
    });
    this.#parts.note([call]);
  }

  async #revoke(known: Known, requestId: string): Promise<Call> {
    const worker = this.#parts.worker();
    const { admin, environment } = worker.clients(known.environment);
    const call = await record(
      asked("revoke", known, worker, { requestId: requestId || undefined }),
      async (options) => {
        const request = { environment, userGroupId: known.id, requestId };
        return { shown: (await admin.revokeUserGroupTokens(request, options)).userGroup };
      },
    );
    this.#parts.note([call]);
    return call;
  }

  /** Revokes under a request id until it is answered, and sometimes once more. */
  async #revokeAndRetry(known: Known): Promise<void> {
    const requestId = randomBytes(9).toString("hex");
    await retry(this.#parts.random, async () => [await this.#revoke(known, requestId)]);
  }

  /** Imports groups of one environment, each with a token of another system that is given but once. */
  async #import(groups: readonly Known[]): Promise<void> {
    const mode = this.#parts.random.chance(0.8) ? ImportMode.UPSERT : ImportMode.CREATE_ONLY;
    const calls = await this.#importAs(mode, groups, newToken);
    // One that was not given is remembered too: it must never be taken.
    for (const [i, call] of calls.entries()) remember(groups[i]?.tokens ?? [], call.given ?? "", isDone(call));
  }

  /**
   * Imports one token for several new groups at once, by any workers: one of them gets it at the most. Nobody else asks for
   * these groups: one that lost the token meanwhile would leave it to another.
   */
  async #contest({ environment }: Known): Promise<void> {
    const groups = Array.from({ length: IMPORTED }, () => this.#make(environment));
    const token = newToken();
    const calls = await Promise.all(groups.map((known) => this.#importAs(ImportMode.UPSERT, [known], () => token)));
    // Whose it is when nobody was told so is seen in what is stored.
    for (const [i, call] of calls.flat().entries()) if (isDone(call)) remember(groups[i]?.tokens ?? [], token, true);
  }

  /** @param tokenOf the token that each is given */
  async #importAs(mode: ImportMode, groups: readonly Known[], tokenOf: () => string): Promise<readonly Call[]> {
    const { name, note } = this.#parts;
    const [first] = groups as [Known];
    const worker = this.#parts.worker();
    const { admin, environment } = worker.clients(first.environment);
    const imports = groups.map((known) => asked("import", known, worker, { given: tokenOf(), value: name() }));
    const calls = await recordAll(imports, async (options) => {
      const userGroups = imports.map(({ given, value }, i) => {
        return { providedId: groups[i]?.id ?? "", name: value, mapping: { [MAPPED]: value }, token: given };
      });
      // Others rotate these groups meanwhile: whichever token is younger, the one of the import is to be given.
      const request = { environment, userGroups, mode, snapshotTime: timestampNow(), replaceNewerTokens: true };
      return (await admin.importUserGroups(request, options)).results.map(importAnswer);
    });
    note(calls);
    return calls;
  }

  /** The group with some others of its environment, and sometimes one that is not there yet. */
  #some(groups: readonly Known[], known: Known): Known[] {
    const { random } = this.#parts;
    const { environment } = known;
    const some = new Set([known]);
    const others = groups.filter((other) => other.environment === environment);
    for (let i = random.below(IMPORTED); i > 0; i--) some.add(random.pick(others));
    if (random.chance(0.3)) some.add(this.#make(environment));
    return [...some];
  }

  /** A group that is not there yet. */
  #make(environment: Known["environment"]): Known {
    const made = { environment, id: `imported ${randomBytes(6).toString("hex")}`, tokens: [] };
    this.made.push(made);
    return made;
  }
}

/** A token of another system. */
function newToken(): string {
  return `imported.${randomBytes(15).toString("base64url")}`;
}
