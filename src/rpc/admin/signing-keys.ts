import type { EnvironmentName as EnvironmentNameMessage } from "../../../gen/usergroup/admin/v1/environment_pb.ts";
import { SigningKey_State as State } from "../../../gen/usergroup/admin/v1/signing_key_pb.ts";
import type { SigningKeyAt, SigningKeys } from "../../sessions/signing-keys.ts";
import { callOf } from "../call-context.ts";
import { environmentNameFromMessage, withTimestamps } from "./messages.ts";
import { type AdminDeps, type AdminRpcs, environmentRpc } from "./requests.ts";

/** No response contains a private key. */
export function signingKeyRpcs({ environments, signingKeys }: AdminDeps) {
  return {
    listSigningKeys: environmentRpc(environments)(async (environment) =>
      messageOf(await signingKeys.list(environment)),
    ),

    async rotateSigningKey({ environment: named, endSessions }, { values }) {
      const environment = await environments.find(environmentNameFromMessage(named as EnvironmentNameMessage));
      const how = endSessions ? "replace" : "rotate";
      return messageOf(await signingKeys.rotate(environment, how, callOf(values)));
    },
  } satisfies Partial<AdminRpcs>;
}

function stateMessage(state: SigningKeyAt["state"]): State {
  return State[state.toUpperCase() as Uppercase<typeof state>];
}

function messageOf(keys: Awaited<ReturnType<SigningKeys["list"]>>) {
  return {
    signingKeys: keys.map(({ key: { kid: id, createTime, activeTime }, state, retireTime, goneTime: expireTime }) =>
      withTimestamps({ id, state: stateMessage(state), createTime, activeTime, retireTime, expireTime }),
    ),
  };
}
