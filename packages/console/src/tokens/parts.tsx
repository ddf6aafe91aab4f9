import { type ApiToken, Role, RoleSchema } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { enumText } from "../../../operator/src/fields.ts";
import { itemsOf } from "../../../operator/src/pages.ts";
import { CommandLine } from "../parts/command.tsx";
import type { Session } from "../session/session.ts";

export function readApiTokens(
  admin: Session["admin"],
  filter: { readonly environment: EnvironmentName | undefined; readonly role?: Role },
  signal: AbortSignal,
): Promise<ApiToken[]> {
  return itemsOf(undefined, async (page) => {
    const { apiTokens: items, nextPageToken } = await admin.listApiTokens({ ...filter, ...page }, { signal });
    return { items, nextPageToken };
  });
}

/**
 * Warns that somebody may have used a leaked API token to read user group tokens. Shows the command that revokes the
 * user group tokens.
 */
export function LeakNote({ role, env }: { readonly role: Role; readonly env?: string | undefined }) {
  // An API token of role resolve cannot read user group tokens.
  if (role === Role.RESOLVE) return null;
  return (
    <>
      <p class="note">
        The role {enumText(RoleSchema, role)} can read the tokens of all user groups of the environment. These tokens
        stay valid after you revoke the API token. If the API token has leaked, also revoke the user group tokens:
      </p>
      <CommandLine command="group revoke" options={{ all: true }} env={env} />
    </>
  );
}
