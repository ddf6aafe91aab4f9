import type { Message } from "@bufbuild/protobuf";
import type { ContextValues } from "@connectrpc/connect";
import { formatEnvironmentName } from "../domain/environment.ts";
import { MAX_ID_LENGTH } from "../domain/user-group.ts";
import { kDenied, kPrincipal } from "./context.ts";

/** What log lines tell of a caller: nothing when the API token is not known. None of it is secret. */
export function callerFields(values: ContextValues | undefined) {
  const principal = values?.get(kPrincipal) ?? values?.get(kDenied);
  if (!principal) return {};
  const { id, displayName, environment } = principal;
  return {
    // Root's token is bound to none.
    ...(environment && { environment: formatEnvironmentName(environment) }),
    api_token_id: id,
    api_token_name: displayName,
  };
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
