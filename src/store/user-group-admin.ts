import type { ChangeBy } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import { EtagMismatch, RecordUnreadable, UserGroupNotFound } from "../domain/errors.ts";
import type { ExportedPage, Page, UserGroupAdminStore, UserGroupRange } from "../domain/store.ts";
import type { ImportedUserGroup, ImportOptions, ListedUserGroup, UserGroupInfo } from "../domain/user-group.ts";
import { ForeignTokens } from "./foreign-tokens.ts";
import { GroupLists } from "./group-lists.ts";
import type { GroupParts, UserGroupsParts } from "./group-parts.ts";
import { infoFromRecord, updateTimeOf } from "./group-record.ts";
import { importGroups } from "./imports.ts";
import { groupKeyOf, placeOf } from "./keys.ts";
import { Rotations } from "./rotations.ts";
import { recordFromAnswer } from "./stored-record.ts";

/** The administration of user groups in Redis. Which keys hold what: `keys.ts` and `fields.ts`. */
export class RedisUserGroupAdmin implements UserGroupAdminStore {
  readonly #parts: GroupParts;
  readonly #lists: GroupLists;
  readonly #rotations: Rotations;

  constructor(parts: UserGroupsParts) {
    this.#parts = { ...parts, foreignTokens: new ForeignTokens(parts.client) };
    this.#lists = new GroupLists(parts);
    this.#rotations = new Rotations(this.#parts);
  }

  list(environment: Environment, range: UserGroupRange): Promise<Page<ListedUserGroup>> {
    return this.#lists.list(environment, range);
  }

  export(environment: Environment, range: UserGroupRange): Promise<ExportedPage> {
    return this.#lists.export(environment, range);
  }

  async lookUp(environment: Environment, providedId: string): Promise<UserGroupInfo> {
    const key = groupKeyOf(environment, providedId);
    const answer = await this.#parts.client.run("look-up", "ugLookUp", [key]);
    if (answer.length === 0) throw new UserGroupNotFound();
    return infoFromRecord(recordFromAnswer(answer), providedId, Number(answer[1]));
  }

  async delete(environment: Environment, providedId: string, etag: string, by: ChangeBy): Promise<void> {
    const { client, audit, foreignTokens } = this.#parts;
    const { partition, prefix, key } = placeOf(environment, providedId);
    const [state, , ended = ""] = await client.change("delete", "ugDelete", [
      key,
      ...[updateTimeOf(etag), prefix, providedId],
      ...audit.ofPartition(environment, partition, by),
    ]);
    switch (state) {
      case "missing":
        throw new UserGroupNotFound();
      case "stale":
        throw new EtagMismatch();
      case "done":
        foreignTokens.forgetLater(environment, ended, providedId);
        return;
      default:
        throw new RecordUnreadable(new Error(`delete: ${state}`));
    }
  }

  async revokeTokens(environment: Environment, providedId: string, requestId: string, by: ChangeBy) {
    const { record, now } = await this.#rotations.revoke(environment, providedId, requestId, by);
    return infoFromRecord(record, providedId, now);
  }

  import(environment: Environment, groups: readonly ImportedUserGroup[], options: ImportOptions, by: ChangeBy) {
    return importGroups(this.#parts, environment, groups, { ...options, by });
  }
}
