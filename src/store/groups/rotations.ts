import type { ChangeBy } from "../../domain/audit.ts";
import type { Environment } from "../../domain/environment.ts";
import { TokenReplaced } from "../../domain/errors.ts";
import { newUserGroupToken } from "../../domain/token.ts";
import type { Rotation } from "../../domain/user-group.ts";
import { changeEnvironment } from "../audit.ts";
import { digest, tokenDigest } from "../encryption.ts";
import { requestKey, tokensKey } from "../keys.ts";
import { recordFromAnswer, type StoredRecord } from "../records.ts";
import { REVOKE_TOKENS, ROTATE_TOKEN } from "../scripts.ts";
import { FIELD, type GroupDeps, targetArgs } from "./group-record.ts";

/** How long what a rotation under a request id made is kept for retries, in milliseconds. */
export const REQUEST_TTL_MS = 24 * 60 * 60 * 1000;

/** Who rotates, and whether it is a revocation, which is made even when Redis' memory is full. */
interface RotationOptions {
  readonly by: ChangeBy;
  readonly isRevocation?: boolean;
}

/**
 * Gives a group a new token, as `UserGroupStore.rotate` and `UserGroupAdminStore.revokeTokens`.
 *
 * @returns the group's id and record, and Redis' clock
 */
export async function rotate(
  { cipher, ...deps }: GroupDeps,
  environment: Environment,
  { target, graceMs, askedGraceMs, requestId }: Rotation,
  { by, isRevocation = false }: RotationOptions,
): Promise<{ readonly providedId: string; readonly record: StoredRecord; readonly now: number }> {
  const { number } = environment;
  const token = newUserGroupToken();
  const newDigest = tokenDigest(token);
  const { text, keyId } = cipher.encrypt(environment, token, newDigest);
  const presented = target.by === "id" ? target.providedId : target.token;
  // Not the default grace period, which may change. Digests, because callers choose the id, and it may be a secret.
  const parameters = isRevocation ? ["revoke", presented, graceMs] : [target.by, presented, askedGraceMs ?? null];
  const answer = await changeEnvironment(
    { ...deps, environment, by },
    "rotate",
    isRevocation ? REVOKE_TOKENS : ROTATE_TOKEN,
    {
      ...targetArgs(number, target),
      request: requestKey(number, requestId ? digest(requestId) : ""),
      tokens: tokensKey(number, newDigest),
      digest: newDigest,
      text,
      keyId,
      graceMs,
      parameters: requestId ? digest(JSON.stringify(parameters)) : "",
      keptRequestMs: REQUEST_TTL_MS,
    },
  );
  const [, now, madeDigest, providedId = ""] = answer;
  const record = recordFromAnswer(answer, 4);
  // An earlier call under the request id has made another token. A revocation succeeds even if that is replaced by now.
  if (!isRevocation && madeDigest !== record[FIELD.digest]) throw new TokenReplaced();
  return { providedId, record, now: Number(now) };
}
