import type { Message } from "@bufbuild/protobuf";
import type { ContextValues } from "@connectrpc/connect";
import type { EnvironmentName as EnvironmentNameMessage } from "../../gen/usergroup/admin/v1/environment_pb.ts";
import { type EnvironmentName, formatEnvironmentName, parseEnvironmentName } from "../domain/environment.ts";
import { MAX_ID_LENGTH } from "../domain/user-group.ts";
import { kClientAddress, kDenied, kPrincipal } from "./context.ts";
import { tagFromMessage } from "./messages.ts";

/**
 * What log lines tell of a caller: nothing when the API token is not known. None of it is secret.
 *
 * @param input the request, which names the environment that root acts on
 */
export function callerFields(values: ContextValues | undefined, input: Message | undefined) {
  const principal = values?.get(kPrincipal) ?? values?.get(kDenied);
  if (!principal) return {};
  const { id, displayName } = principal;
  const environment = principal.environment ?? namedEnvironment(input);
  return {
    ...(environment && { environment: formatEnvironmentName(environment) }),
    api_token_id: id,
    api_token_name: displayName,
  };
}

/** The environment that a request names; undefined when it names none, or by what is no name. */
function namedEnvironment(input: Message | undefined): EnvironmentName | undefined {
  const { environment } = (input ?? {}) as { readonly environment?: EnvironmentNameMessage };
  if (environment === undefined) return undefined;
  // One that is no name was refused, and may be anything.
  return parseEnvironmentName(formatEnvironmentName({ ...environment, tag: tagFromMessage(environment.tag) }));
}

/** Fields that name a group, in whichever message they are. All other fields may hold a token, and are not looked at. */
interface NamesGroup {
  readonly userGroupId?: unknown;
  readonly providedId?: unknown;
  readonly group?: { readonly case?: unknown; readonly value?: unknown };
  readonly userGroup?: { readonly providedId?: unknown };
}

/** Which group a call is about. Only for authorized callers: what a stranger claims is not logged. */
export function groupFields(
  values: ContextValues | undefined,
  input: Message | undefined,
  output: Message | undefined,
): { user_group_id?: string } {
  if (!values?.get(kPrincipal)) return {};
  const asked = input as NamesGroup | undefined;
  const told = output as NamesGroup | undefined;
  const byId = asked?.group?.case === "userGroupId" ? asked.group.value : undefined;
  const id = asked?.userGroupId ?? byId ?? told?.userGroup?.providedId ?? told?.providedId;
  // A longer id was refused, and would only make the log longer.
  return typeof id === "string" && id !== "" && id.length <= MAX_ID_LENGTH ? { user_group_id: id } : {};
}

/** Where a call that failed came from, as far as it is known. */
export function peerFields(values: ContextValues | undefined): { peer?: string } {
  const peer = values?.get(kClientAddress)();
  return peer ? { peer } : {};
}
