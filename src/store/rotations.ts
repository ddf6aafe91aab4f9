import type { ChangeBy } from "../domain/audit.ts";
import type { Environment } from "../domain/environment.ts";
import {
  RecordUnreadable,
  RequestIdReused,
  TokenNotFound,
  TokenReplaced,
  UserGroupNotFound,
} from "../domain/errors.ts";
import { partitionOf } from "../domain/partition.ts";
import { newUserGroupToken, userGroupTokenShape } from "../domain/token.ts";
import type { Rotation } from "../domain/user-group.ts";
import { digest, tokenDigest } from "./encryption.ts";
import { FIELD } from "./fields.ts";
import type { GroupParts } from "./group-parts.ts";
import { partitionPrefix, prefixFor, REQUEST_TTL_MS, requestClaimKey, tokensKey } from "./keys.ts";
import { recordFromAnswer, type StoredRecord } from "./stored-record.ts";

/** A group that was rotated. */
export interface Rotated {
  readonly record: StoredRecord;
  /** Redis' clock. */
  readonly now: number;
}

/** How a group is given a new token. */
interface Replacement {
  readonly partition: number;
  /** Undefined: the partition's index of tokens tells it. */
  readonly providedId: string | undefined;
  /** The digest that its token must have; empty: any. */
  readonly oldDigest: string;
  readonly graceMs: number;
  /** Empty: there is none. */
  readonly requestId: string;
  /** Whether it is to be made even when Redis' memory is full. */
  readonly isRevocation: boolean;
  /** What a retry must repeat. */
  readonly parameters: readonly unknown[];
}

/** Gives groups new tokens. */
export class Rotations {
  readonly #parts: GroupParts;

  constructor(parts: GroupParts) {
    this.#parts = parts;
  }

  /** As `UserGroupStore.rotate`. */
  async rotate(environment: Environment, rotation: Rotation, by: ChangeBy): Promise<Rotated> {
    const { target, graceMs, askedGraceMs, requestId = "" } = rotation;
    const where = target.by === "id" ? byId(environment, target.providedId) : await this.#byToken(environment, target);
    // Not the default grace, which may change.
    const parameters = [target.by, target.by === "id" ? target.providedId : target.token, askedGraceMs ?? null];
    const rotated = await this.#replace(
      environment,
      { ...where, graceMs, requestId, isRevocation: false, parameters },
      by,
    );
    if (rotated !== undefined) return rotated;
    throw target.by === "id" ? new UserGroupNotFound() : new TokenNotFound();
  }

  /** As `UserGroupAdminStore.revokeTokens`. */
  async revoke(environment: Environment, providedId: string, requestId: string, by: ChangeBy): Promise<Rotated> {
    const parameters = ["revoke", providedId];
    const where = byId(environment, providedId);
    const what = { ...where, graceMs: 0, requestId, isRevocation: true, parameters };
    const revoked = await this.#replace(environment, what, by);
    if (revoked === undefined) throw new UserGroupNotFound();
    return revoked;
  }

  /** @throws TokenNotFound */
  async #byToken(environment: Environment, { token }: { readonly token: string }) {
    const oldDigest = tokenDigest(token);
    const partition = tokenPartition(environment, token);
    if (partition !== undefined) return { partition, providedId: undefined, oldDigest };
    const providedId = await this.#parts.foreignTokens.find(environment, oldDigest, "not_made");
    if (providedId === undefined) throw new TokenNotFound();
    return { ...byId(environment, providedId), oldDigest };
  }

  /** Undefined when there is no such group, or its token is another one. */
  async #replace(environment: Environment, what: Replacement, by: ChangeBy): Promise<Rotated | undefined> {
    const { client, cipher, audit, foreignTokens } = this.#parts;
    const { partition, providedId, graceMs } = what;
    // Callers choose the id. It may be a secret, which must not become part of a key.
    const requestId = what.requestId === "" ? "" : digest(what.requestId);
    const fingerprint = requestId === "" ? "" : digest(JSON.stringify(what.parameters));
    if (requestId !== "") await this.#claim(environment, what.isRevocation, requestId, fingerprint);

    const prefix = partitionPrefix(environment, partition);
    const token = newUserGroupToken(partition);
    const newDigest = tokenDigest(token);
    const { text, keyId } = cipher.encrypt(environment, token, newDigest);
    const answer = await client.change("rotate", what.isRevocation ? "ugRevoke" : "ugRotate", [
      tokensKey(prefix),
      ...[prefix, what.oldDigest, providedId ?? "", newDigest, text, keyId, String(graceMs)],
      ...[requestId, fingerprint, String(REQUEST_TTL_MS)],
      ...audit.ofPartition(environment, partition, by),
    ]);
    const record = recordFromAnswer(answer);
    switch (answer[0]) {
      case "missing":
        return undefined;
      case "replayed":
        if (record[FIELD.fingerprint] !== fingerprint) throw new RequestIdReused();
        // A revocation has done what it was to do, whatever came after it.
        if (!what.isRevocation && record[FIELD.madeDigest] !== record[FIELD.digest]) throw new TokenReplaced();
        // The first try may have been answered by nobody, and the token of another system has its entry still.
        if (providedId !== undefined && what.oldDigest !== "") {
          foreignTokens.releaseLater(environment, what.oldDigest, { keepMs: REQUEST_TTL_MS });
        }
        break;
      case "done": {
        const ended = record[FIELD.endedForeign] ?? "";
        // A retry by the old token has to find the partition that has the answer.
        const keepMs = requestId === "" ? 0 : REQUEST_TTL_MS;
        if (ended !== "") foreignTokens.releaseLater(environment, ended, { keepMs });
        break;
      }
      default:
        throw new RecordUnreadable(new Error(`rotate: ${answer[0]}`));
    }
    return { record, now: Number(answer[1]) };
  }

  /**
   * Ties a request id to its parameters in the whole environment; the rotation itself keeps what it made in the group's
   * partition, which another request under the same id need not look at. Replicas are not waited for: the rotation that
   * follows waits for all that is before it on the connection.
   */
  async #claim(environment: Environment, isRevocation: boolean, requestId: string, fingerprint: string) {
    const script = isRevocation ? "ugClaimRevocation" : "ugClaim";
    const key = requestClaimKey(prefixFor(environment, requestId), requestId);
    const args = [key, fingerprint, String(REQUEST_TTL_MS)] as const;
    const [, , first] = await this.#parts.client.prepare("claim", script, args);
    if (first !== fingerprint) throw new RequestIdReused();
  }
}

/**
 * The partition that a token names; undefined for one of another system.
 *
 * @throws TokenNotFound when no group of the environment can have the token
 */
export function tokenPartition(environment: Environment, token: string): number | undefined {
  const shape = userGroupTokenShape(token);
  if (shape.kind === "malformed") throw new TokenNotFound(true);
  if (shape.kind === "foreign") return undefined;
  if (shape.partition >= environment.partitions) throw new TokenNotFound();
  return shape.partition;
}

function byId(environment: Environment, providedId: string) {
  return { partition: partitionOf(environment, providedId), providedId, oldDigest: "" };
}
