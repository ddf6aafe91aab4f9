import { client } from "./hey-api/client.gen.js";
import {
  getUser,
  userGroupServiceGetUserGroup,
  viewerServiceCreateViewerSession,
  viewerServiceResolveViewer,
} from "./hey-api/index.js";

const { URL = "", API_TOKEN = "", USER_GROUP_ID = "" } = process.env;
client.setConfig({ baseUrl: URL, auth: ({ scheme }) => (scheme === "bearer" ? API_TOKEN : undefined) });

const got = await userGroupServiceGetUserGroup({
  body: { userGroupId: USER_GROUP_ID, properties: { plan: "gold", seats: [1, null] } },
});
const rest = await getUser({ query: { user_group_id: USER_GROUP_ID } });
const made = await viewerServiceCreateViewerSession({
  body: { userGroupId: USER_GROUP_ID, audience: "https://dashboards.example.com" },
});
const session = made.data?.session ?? "";
const resolved = await viewerServiceResolveViewer({ body: { token: session } });
const refused = await viewerServiceResolveViewer({ body: { token: "no-such-token" } });

console.log(
  JSON.stringify({
    token: got.data?.userGroup?.token,
    properties: got.data?.userGroup?.properties,
    restToken: rest.data?.user_group.token,
    teamId: Number(rest.data?.user_group.team_id),
    session,
    providedId: resolved.data?.providedId,
    code: refused.error?.code,
  }),
);
