import { SigningKey_State as State } from "../../../gen/usergroup/admin/v1/signing_key_pb.ts";
import type { SigningKeyAt } from "../../sessions/signing-keys.ts";
import { withTimestamps } from "./messages.ts";
import { type AdminDeps, type AdminRpcs, environmentRpc } from "./requests.ts";

/** No response contains a private key. */
export function signingKeyRpcs({ environments, signingKeys }: AdminDeps) {
  const inEnvironment = environmentRpc(environments);
  return {
    listSigningKeys: inEnvironment(async (environment) => {
      return { signingKeys: (await signingKeys.list(environment)).map(keyMessage) };
    }),

    rotateSigningKey: inEnvironment(async (environment, { endSessions }, call) => {
      const how = endSessions ? "replace" : "rotate";
      return { signingKeys: (await signingKeys.rotate(environment, how, call)).map(keyMessage) };
    }),
  } satisfies Partial<AdminRpcs>;
}

function keyMessage({
  key: { kid: id, createTime, activeTime },
  state,
  retireTime,
  goneTime: expireTime,
}: SigningKeyAt) {
  const name = state.toUpperCase() as Uppercase<typeof state>;
  return withTimestamps({ id, state: State[name], createTime, activeTime, retireTime, expireTime });
}
