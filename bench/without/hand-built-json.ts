import { ApiEnvironmentTag, type UserGroup } from "../../gen/usergroup/v1/user_group_pb.ts";
import type { Verb } from "../../src/rest/verbs.ts";

/* REST's answers are objects, and JSON.stringify writes them. */

type Fields = { readonly [name: string]: unknown };

export const VERBS = (original: ReadonlyMap<string, Verb>): ReadonlyMap<string, Verb> =>
  new Map([...original].map(([name, verb]) => [name, { ...verb, toText: TEXTS[name] as Verb["toText"] }]));

const TEXTS: { readonly [verb: string]: (response: never, request: never) => string } = {
  GET: (
    { userGroup, newUserGroup }: { userGroup: UserGroup; newUserGroup: boolean },
    { name, properties }: { name?: string; properties?: object },
  ) =>
    text(
      {
        ...common(userGroup, name ?? userGroup.name),
        properties: properties ?? userGroup.properties ?? null,
      },
      { new_user_group: newUserGroup },
    ),
  PUT: ({ userGroup }: { userGroup: UserGroup }) =>
    text({
      ...common(userGroup, userGroup.name),
      properties: userGroup.properties ?? null,
      api_environment_tag: tagOf(userGroup),
    }),
  POST: ({ userGroup }: { userGroup: UserGroup }) =>
    text({ ...common(userGroup, userGroup.name), api_environment_tag: tagOf(userGroup) }),
};

function text(group: Fields, others: Fields = {}): string {
  return JSON.stringify({ success: 1, ...others, user_group: group });
}

function common({ teamId, token, providedId }: UserGroup, name: string): Fields {
  return { team_id: Number(teamId), token, name, provided_id: providedId };
}

function tagOf({ apiEnvironmentTag }: UserGroup): string | null {
  if (apiEnvironmentTag === ApiEnvironmentTag.CUSTOMER) return "Customer";
  return apiEnvironmentTag === ApiEnvironmentTag.TESTING ? "Testing" : null;
}
