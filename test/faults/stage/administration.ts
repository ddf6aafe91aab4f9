import { randomBytes } from "node:crypto";
import { timestampNow } from "@bufbuild/protobuf/wkt";
import type { Random } from "@user-group-service/testing/random";
import { ImportMode } from "../../../gen/usergroup/admin/v1/admin_service_pb.ts";
import { type Call, isDone } from "../history/call.ts";
import { type Known, remember } from "./known.ts";
import { importAnswer, MAPPED, record, recordAll, requested } from "./record.ts";
import { retry } from "./retry.ts";
import type { Worker } from "./workers.ts";

const IMPORTED = 3;

export interface AdministrationParts {
  readonly random: Random;
  worker(): Worker;
  /** Returns a name that no other call uses. */
  name(): string;
  note(calls: readonly Call[]): void;
}

/** Deletes, suspends, resumes and imports groups while callers use them. Revokes tokens of these groups. */
export class Administration {
  /** Groups for imports. Only imports create these groups, and only this administrator uses them. */
  readonly made: Known[] = [];
  readonly #parts: AdministrationParts;

  constructor(parts: AdministrationParts) {
    this.#parts = parts;
  }

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
      () => this.#suspend(known),
      () => this.#resume(known),
      () => this.#resume(known),
    ];
    await random.pick<() => Promise<unknown>>(acts)();
  }

  async #delete(known: Known): Promise<void> {
    const worker = this.#parts.worker();
    const { admin, environment } = worker.clients(known.environment);
    const call = await record(requested("delete", known, worker, {}), async (options) => {
      await admin.deleteUserGroup({ environment, userGroupId: known.id }, options);
      return { shown: undefined };
    });
    this.#parts.note([call]);
  }

  /**
   * Suspends a group. No two calls have the same reason. So the call is a change even if the group is suspended
   * already.
   */
  async #suspend(known: Known): Promise<void> {
    const worker = this.#parts.worker();
    const { admin, environment } = worker.clients(known.environment);
    const request = { environment, userGroupId: known.id, reason: this.#parts.name() };
    const call = await record(requested("suspend", known, worker, {}), async (options) => ({
      shown: (await admin.suspendUserGroup(request, options)).userGroup,
    }));
    this.#parts.note([call]);
  }

  async #resume(known: Known): Promise<void> {
    const worker = this.#parts.worker();
    const { admin, environment } = worker.clients(known.environment);
    const call = await record(requested("resume", known, worker, {}), async (options) => ({
      shown: (await admin.resumeUserGroup({ environment, userGroupId: known.id }, options)).userGroup,
    }));
    this.#parts.note([call]);
  }

  async #revoke(known: Known, requestId: string): Promise<Call> {
    const worker = this.#parts.worker();
    const { admin, environment } = worker.clients(known.environment);
    const call = await record(
      requested("revoke", known, worker, { requestId: requestId || undefined }),
      async (options) => {
        const request = { environment, userGroupId: known.id, requestId };
        return { shown: (await admin.revokeUserGroupTokens(request, options)).userGroup };
      },
    );
    this.#parts.note([call]);
    return call;
  }

  /** Revokes all tokens of a group. The call has a request id, so that `retry` can repeat it. */
  async #revokeAndRetry(known: Known): Promise<void> {
    const requestId = randomBytes(9).toString("hex");
    await retry(this.#parts.random, async () => [await this.#revoke(known, requestId)]);
  }

  /** Imports groups of one environment. Each group has a new token that this service has not issued. */
  async #import(groups: readonly Known[]): Promise<void> {
    const mode = this.#parts.random.chance(0.8) ? ImportMode.UPSERT : ImportMode.CREATE_ONLY;
    const calls = await this.#importAs(mode, groups, newToken);
    // Remember the token even if its import failed, so that the final reads present it. The checker then finds a token
    // that the service accepts by mistake.
    for (const [i, call] of calls.entries()) remember(groups[i]?.tokens ?? [], call.given ?? "", isDone(call));
  }

  /**
   * Concurrently imports the same token for several new groups. At most one of the groups receives the token. This
   * group keeps the token, because no other caller uses the new groups.
   */
  async #contest({ environment }: Known): Promise<void> {
    const groups = Array.from({ length: IMPORTED }, () => this.#make(environment));
    const token = newToken();
    const calls = await Promise.all(groups.map((known) => this.#importAs(ImportMode.UPSERT, [known], () => token)));
    // If no answer shows which group has the token, the check of the stored data finds the group.
    for (const [i, call] of calls.flat().entries()) if (isDone(call)) remember(groups[i]?.tokens ?? [], token, true);
  }

  /** @param tokenOf returns the token for each group */
  async #importAs(mode: ImportMode, groups: readonly Known[], tokenOf: () => string): Promise<readonly Call[]> {
    const { name, note } = this.#parts;
    const [first] = groups as [Known];
    const worker = this.#parts.worker();
    const { admin, environment } = worker.clients(first.environment);
    const imports = groups.map((known) => requested("import", known, worker, { given: tokenOf(), value: name() }));
    const calls = await recordAll(imports, async (options) => {
      const userGroups = imports.map(({ given, value }, i) => {
        return { providedId: groups[i]?.id ?? "", name: value, mapping: { [MAPPED]: value }, token: given };
      });
      // Callers rotate tokens of these groups at the same time. `replaceNewerTokens` makes the import replace the token
      // of a group even if the token is newer than `snapshotTime`.
      const request = { environment, userGroups, mode, snapshotTime: timestampNow(), replaceNewerTokens: true };
      return (await admin.importUserGroups(request, options)).results.map(importAnswer);
    });
    note(calls);
    return calls;
  }

  /** Returns the group and some other groups of its environment. Sometimes adds a group that does not exist yet. */
  #some(groups: readonly Known[], known: Known): Known[] {
    const { random } = this.#parts;
    const { environment } = known;
    const some = new Set([known]);
    const others = groups.filter((other) => other.environment === environment);
    for (let i = random.below(IMPORTED); i > 0; i--) some.add(random.pick(others));
    if (random.chance(0.3)) some.add(this.#make(environment));
    return [...some];
  }

  #make(environment: Known["environment"]): Known {
    const made = { environment, id: `imported ${randomBytes(6).toString("hex")}`, tokens: [] };
    this.made.push(made);
    return made;
  }
}

function newToken(): string {
  return `imported.${randomBytes(15).toString("base64url")}`;
}
