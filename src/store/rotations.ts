import type { ChangeBy } from "../domain/audit.ts";
import { type Environment, partitionOf } from "../domain/environment.ts";
import {
  RecordUnreadable,
  RequestIdReused,
  TokenNotFound,
  TokenReplaced,
  UserGroupNotFound,
} from "../domain/errors.ts";
import { newUserGroupToken } from "../domain/token.ts";
import type { Rotation } from "../domain/user-group.ts";
import { digest, tokenDigest } from "./encryption.ts";
import { FIELD } from "./fields.ts";
import { keptFor, tokenPartition } from "./foreign-tokens.ts";
import type { GroupParts } from "./group-parts.ts";
import { partitionPrefix, prefixFor, REQUEST_TTL_MS, requestClaimKey, tokensKey } from "./keys.ts";
import { recordFromAnswer, type StoredRecord, textOf } from "./stored-record.ts";

/** A group that was rotated. */
export interface Rotated {
  readonly record: StoredRecord;
  /** Redis' clock. */
  readonly now: number;
}

/** How a group is given a new token. */
interface Replacement {
  readonly partition: number;
  /** Undefined: the partition's indexes tell it. */
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
    const where = target.by === "id" ? byId(environment, target.providedId) : byToken(environment, target.token);
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

  /** Undefined when there is no such group, or its token is another one. */
  async #replace(environment: Environment, what: Replacement, by: ChangeBy): Promise<Rotated | undefined> {
    // Callers choose the id. It may be a secret, which must not become part of a key.
    const requestId = what.requestId === "" ? "" : digest(what.requestId);
    const fingerprint = requestId === "" ? "" : digest(JSON.stringify(what.parameters));
    if (requestId !== "") await this.#claim(environment, what.isRevocation, requestId, fingerprint);
    return this.#replaceAt(environment, { ...what, requestId, fingerprint }, by);
  }

  /** @param what with digests of the request id and of its parameters */
  async #replaceAt(
    environment: Environment,
    what: Replacement & { readonly fingerprint: string },
    by: ChangeBy,
  ): Promise<Rotated | undefined> {
    const { client, cipher, audit, foreignTokens } = this.#parts;
    const { partition, providedId, graceMs, requestId, fingerprint } = what;
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
      case "elsewhere":
        // The token does not name the partition of its group.
        return this.#replaceAt(
          environment,
          { ...what, ...placedBy(environment, textOf(record, FIELD.providedId)) },
          by,
        );
      case "replayed":
        if (record[FIELD.fingerprint] !== fingerprint) throw new RequestIdReused();
        // A revocation has done what it was to do, whatever came after it.
        if (!what.isRevocation && record[FIELD.madeDigest] !== record[FIELD.digest]) throw new TokenReplaced();
        break;
      case "done": {
        // A retry by the old token has to find the partition that has the answer.
        const keepMs = Math.max(keptFor(graceMs), requestId === "" ? 0 : REQUEST_TTL_MS);
        const ended = textOf(record, FIELD.endedEntry);
        foreignTokens.forgetLater(environment, ended, textOf(record, FIELD.providedId), keepMs);
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

function placedBy(environment: Environment, providedId: string) {
  return { partition: partitionOf(environment, providedId), providedId };
}

function byId(environment: Environment, providedId: string) {
  return { ...placedBy(environment, providedId), oldDigest: "" };
}

/** @throws TokenNotFound */
function byToken(environment: Environment, token: string) {
  const oldDigest = tokenDigest(token);
  return { partition: tokenPartition(environment, token, oldDigest), providedId: undefined, oldDigest };
}
