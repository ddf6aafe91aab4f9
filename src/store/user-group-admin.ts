import type { ChangeBy } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import { EtagMismatch, RecordUnreadable, UserGroupNotFound } from "../domain/errors.ts";
import { partitionOf } from "../domain/partition.ts";
import type { Page, UserGroupAdminStore, UserGroupRange } from "../domain/store.ts";
import type { UserGroup } from "../domain/user-group.ts";
import type {
  ImportedUserGroup,
  ImportMode,
  ImportOutcome,
  ListedUserGroup,
  UserGroupInfo,
} from "../domain/user-group-admin.ts";
import type { Audit } from "./audit.ts";
import type { StoreClient } from "./client.ts";
import { ForeignTokens } from "./foreign-tokens.ts";
import { GroupLists } from "./group-lists.ts";
import { infoFromRecord, updateTimeOf } from "./group-record.ts";
import { Imports } from "./imports.ts";
import { groupKey, groupKeyOf, partitionPrefix } from "./keys.ts";
import { Rotations } from "./rotations.ts";
import { recordFromAnswer } from "./stored-record.ts";
import type { UserGroupsParts } from "./user-groups.ts";

/** The administration of user groups in Redis. Which keys hold what: `keys.ts` and `fields.ts`. */
export class RedisUserGroupAdmin implements UserGroupAdminStore {
  readonly #client: StoreClient;
  readonly #audit: Audit;
  readonly #foreignTokens: ForeignTokens;
  readonly #lists: GroupLists;
  readonly #rotations: Rotations;
  readonly #imports: Imports;

  constructor(parts: UserGroupsParts) {
    this.#client = parts.client;
    this.#audit = parts.audit;
    this.#foreignTokens = new ForeignTokens(parts.client);
    const all = { ...parts, foreignTokens: this.#foreignTokens };
    this.#lists = new GroupLists(parts.client, parts.cipher);
    this.#rotations = new Rotations(all);
    this.#imports = new Imports(all);
  }

  list(environment: Environment, range: UserGroupRange): Promise<Page<ListedUserGroup>> {
    return this.#lists.list(environment, range);
  }

  export(environment: Environment, range: UserGroupRange): Promise<Page<UserGroup>> {
    return this.#lists.export(environment, range);
  }

  async lookUp(environment: Environment, providedId: string): Promise<UserGroupInfo> {
    const key = groupKeyOf(environment, providedId);
    const answer = await this.#client.run("look-up", "ugLookUp", [key]);
    if (answer.length === 0) throw new UserGroupNotFound();
    return infoFromRecord(recordFromAnswer(answer), providedId, Number(answer[1]));
  }

  async delete(environment: Environment, providedId: string, etag: string, by: ChangeBy): Promise<void> {
    const partition = partitionOf(environment, providedId);
    const prefix = partitionPrefix(environment, partition);
    const key = groupKey(prefix, providedId);
    const [state, , foreign = ""] = await this.#client.change("delete", "ugDelete", [
      key,
      ...[updateTimeOf(etag), prefix, providedId],
      ...this.#audit.ofPartition(environment, partition, by),
    ]);
    switch (state) {
      case "missing":
        throw new UserGroupNotFound();
      case "stale":
        throw new EtagMismatch();
      case "done":
        if (foreign !== "") this.#foreignTokens.releaseLater(environment, foreign);
        return;
      default:
        throw new RecordUnreadable(new Error(`delete: ${state}`));
    }
  }

  async revokeTokens(
    environment: Environment,
    providedId: string,
    requestId: string,
    by: ChangeBy,
  ): Promise<UserGroupInfo> {
    const { record, now } = await this.#rotations.revoke(environment, providedId, requestId, by);
    return infoFromRecord(record, providedId, now);
  }

  import(
    environment: Environment,
    groups: readonly ImportedUserGroup[],
    mode: ImportMode,
    by: ChangeBy,
  ): Promise<readonly ImportOutcome[]> {
    return this.#imports.run(environment, groups, { mode, by });
  }
}
