import { type ApiToken, Role } from "../../../../gen/usergroup/admin/v1/api_token_pb.ts";
import type { EnvironmentName } from "../../../../gen/usergroup/admin/v1/environment_pb.ts";
import { CommandLine } from "../parts/command.tsx";
import { NotOffered } from "../parts/page.tsx";
import { Facts } from "../parts/table.tsx";
import type { Session } from "../session/session.ts";
import { timeText } from "../words.ts";
import { roleText } from "./api-tokens.ts";

/** The largest page that the service gives, and the most API tokens of an environment. */
const PAGE_SIZE = 1000;

/** Reads all API tokens of an environment. */
export async function readApiTokens(
  { admin }: Pick<Session, "admin">,
  filter: { readonly environment: EnvironmentName | undefined; readonly role?: Role },
  signal: AbortSignal,
): Promise<ApiToken[]> {
  const found: ApiToken[] = [];
  let pageToken = "";
  do {
    const page = await admin.listApiTokens({ ...filter, pageSize: PAGE_SIZE, pageToken }, { signal });
    found.push(...page.apiTokens);
    pageToken = page.nextPageToken;
  } while (pageToken !== "");
  return found;
}

/** The facts of an API token. @param before further facts, which come first */
export function ApiTokenFacts({
  apiToken,
  before = [],
}: {
  readonly apiToken: ApiToken;
  readonly before?: Parameters<typeof Facts>[0]["facts"];
}) {
  const { id, displayName, role, rotator } = apiToken;
  return (
    <Facts
      facts={[
        ...before,
        ["Id", <code key="id">{id}</code>],
        ["Name", displayName],
        ["Role", roleText(role)],
        ["Expires", timeText(apiToken.expireTime, "never")],
        ["Created", timeText(apiToken.createTime)],
        ["Created by", apiToken.creator || undefined],
        ["Last used", timeText(apiToken.lastUseTime, "not yet")],
        ["Rotated by", rotator || undefined],
        ["Secret since", rotator ? timeText(apiToken.tokenCreateTime) : undefined],
        ["Old secret valid until", apiToken.graceExpireTime && timeText(apiToken.graceExpireTime)],
      ]}
    />
  );
}

/** Says which user group tokens a leaked API token exposed. Its revocation does not end them. */
export function LeakNote({ role, env }: { readonly role: Role; readonly env?: string | undefined }) {
  // A token of role resolve reads no user group.
  if (role === Role.RESOLVE) return null;
  return (
    <>
      <NotOffered>
        If it leaked: a token of role {roleText(role)} can read the tokens of all user groups of its environment. They
        stay valid when you revoke it. Revoke them too:
      </NotOffered>
      <CommandLine command="group revoke" options={["--all"]} env={env} />
    </>
  );
}
