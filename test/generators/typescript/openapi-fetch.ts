import createClient from "openapi-fetch";
import type { paths } from "./openapi-typescript/api.js";

const { URL = "", API_TOKEN, USER_GROUP_ID = "" } = process.env;
const client = createClient<paths>({ baseUrl: URL, headers: { authorization: `Bearer ${API_TOKEN}` } });

const got = await client.POST("/usergroup.v1.UserGroupService/GetUserGroup", {
  body: { userGroupId: USER_GROUP_ID, properties: { plan: "gold", seats: [1, null] } },
});
const rest = await client.GET("/api/user", { params: { query: { user_group_id: USER_GROUP_ID } } });
const made = await client.POST("/usergroup.v1.ViewerService/CreateViewerSession", {
  body: { userGroupId: USER_GROUP_ID, audience: "https://dashboards.example.com" },
});
const session = made.data?.session ?? "";
const resolved = await client.POST("/usergroup.v1.ViewerService/ResolveViewer", { body: { token: session } });
const refused = await client.POST("/usergroup.v1.ViewerService/ResolveViewer", { body: { token: "no-such-token" } });

const teamId: number | undefined = rest.data?.user_group.team_id;
const code: "not_found" | (string & {}) | undefined = refused.error?.code;
console.log(
  JSON.stringify({
    token: got.data?.userGroup?.token,
    properties: got.data?.userGroup?.properties,
    restToken: rest.data?.user_group.token,
    teamId,
    session,
    providedId: resolved.data?.providedId,
    code,
  }),
);
