import { type Environment, partitionOf } from "../../domain/environment.ts";
import { TokenNotFound, UserGroupNotFound } from "../../domain/errors.ts";
import type { UserGroupTarget } from "../../domain/user-group.ts";
import { tokenDigest } from "../encryption/encryption.ts";
import { KEY, partitionPrefix } from "../keys.ts";
import { FIELD } from "./fields.ts";
import { tokenPartition } from "./foreign-tokens.ts";

/*
 * Changes of a group that is found by its id or by its token, in one step. Most tokens name the partition of their group.
 */

/**
 * Finds the group with the `id`, or where that is empty, of the token with the digest `old`: `group` is its key, `current`
 * the digest of its token, which must be `old` unless that is empty. `key` is the partition's index of tokens.
 * Answers `missing`; or `elsewhere` and, as a field, the id of a group of another partition that may have the token. Goes
 * behind `INDEXED` and `ENTRY`.
 */
export const FIND = `if id == '' then
  id = redis.call('HGET', key, indexed(old))
  local holder = not id and holder_by(prefix, old)
  if holder then return {'elsewhere', stamp, '${FIELD.providedId}', holder} end
  if not id then return {'missing', stamp} end
end
local group = prefix .. '${KEY.group}' .. id
local current = redis.call('HGET', group, '${FIELD.digest}')
if old ~= '' and current ~= old then return {'missing', stamp} end
`;

/** Where a group is looked for. */
interface Search {
  /** Undefined: the index of tokens tells. */
  readonly id: string | undefined;
  /** The digest of the token that it must have; empty: any. */
  readonly old: string;
  readonly partition: number;
}

/** Where the group of a target is looked for first. @throws TokenNotFound when no group can have the token */
export function searchFor(environment: Environment, target: UserGroupTarget): Search {
  if (target.by === "id") {
    const { providedId: id } = target;
    return { id, old: "", partition: partitionOf(environment, id) };
  }
  const old = tokenDigest(target.token);
  return { id: undefined, old, partition: tokenPartition(environment, target.token, old) };
}

/**
 * Makes a change by a script that begins with `FIND`, once more where the token does not name the partition of its group.
 *
 * @returns what the script answers
 * @throws UserGroupNotFound, or TokenNotFound of a group that is looked for by its token
 */
export async function changeAt(
  environment: Environment,
  search: Search,
  change: (
    args: { readonly key: string; readonly prefix: string; readonly old: string; readonly id: string | undefined },
    partition: number,
  ) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  let { id, partition } = search;
  for (;;) {
    const prefix = partitionPrefix(environment, partition);
    const answer = await change({ key: prefix + KEY.tokens, prefix, old: search.old, id }, partition);
    const [state, , , holder] = answer;
    if (state === "missing") throw search.old === "" ? new UserGroupNotFound() : new TokenNotFound();
    if (state !== "elsewhere" || holder === undefined) return answer;
    id = holder;
    partition = partitionOf(environment, holder);
  }
}
