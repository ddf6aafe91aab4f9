import type { ChangeBy } from "../../domain/audit.ts";
import type { Environment } from "../../domain/environment.ts";
import { TokenReplaced } from "../../domain/errors.ts";
import { newUserGroupToken } from "../../domain/token.ts";
import type { Rotation } from "../../domain/user-group.ts";
import { changeEnvironment } from "../audit.ts";
import { digest, tokenDigest } from "../encryption.ts";
import { recordFromAnswer } from "../records.ts";
import { REVOKE_TOKENS, ROTATE_TOKEN } from "../scripts.ts";
import { FIELD, type GroupAnswer, type GroupDeps, targetArgs } from "./group-record.ts";

/** Time for retries with a request id, in milliseconds. */
export const REQUEST_TTL_MS = 24 * 60 * 60 * 1000;

interface RotationOptions {
  readonly by: ChangeBy;
  /** Whether Redis makes the change even if its memory is full. Default: false. */
  readonly isRevocation?: boolean;
}

/**
 * Implements `UserGroupStore.rotate` and `UserGroupAdminStore.revokeTokens`.
 *
 * @returns the group's id and record, and Redis' clock
 */
export async function rotate(
  { cipher, ...deps }: GroupDeps,
  environment: Environment,
  { target, graceMs, requestedGraceMs, requestId }: Rotation,
  { by, isRevocation = false }: RotationOptions,
): Promise<GroupAnswer> {
  const token = newUserGroupToken();
  const newDigest = tokenDigest(token);
  const { text, keyId } = cipher.encrypt(environment, token, newDigest);
  const presented = target.by === "id" ? target.providedId : target.token;
  // A default grace period is left out, because the default may change before the retry. Redis gets digests, because callers may
  // choose secrets as request ids.
  const parameters = isRevocation ? ["revoke", presented, graceMs] : [target.by, presented, requestedGraceMs ?? null];
  const answer = await changeEnvironment(
    { ...deps, environment, by },
    "rotate",
    isRevocation ? REVOKE_TOKENS : ROTATE_TOKEN,
    {
      ...targetArgs(target),
      digest: newDigest,
      tokenText: text,
      keyId,
      graceMs,
      requestDigest: requestId ? digest(requestId) : "",
      parameters: requestId ? digest(JSON.stringify(parameters)) : "",
      requestTtlMs: REQUEST_TTL_MS,
    },
  );
  const [, now, madeDigest, providedId = ""] = answer;
  const record = recordFromAnswer(answer, 4);
  // This is a retry, and a later rotation has replaced its token. A revocation succeeds nevertheless.
  if (!isRevocation && madeDigest !== record[FIELD.digest]) throw new TokenReplaced();
  return { providedId, record, now: Number(now) };
}
