import {
  getUser,
  userGroupServiceGetUserGroup,
  viewerServiceCreateViewerSession,
  viewerServiceResolveViewer,
} from "./orval/api.js";

const { API_TOKEN, USER_GROUP_ID = "" } = process.env;
const options = { headers: { authorization: `Bearer ${API_TOKEN}` } };

const got = await userGroupServiceGetUserGroup(
  { userGroupId: USER_GROUP_ID, properties: { plan: "gold", seats: [1, null] } },
  options,
);
const rest = await getUser({ user_group_id: USER_GROUP_ID }, options);
const made = await viewerServiceCreateViewerSession(
  { userGroupId: USER_GROUP_ID, audience: "https://dashboards.example.com" },
  options,
);
if (got.status !== 200 || rest.status !== 200 || made.status !== 200) throw new Error("a call failed");
const session = made.data.session ?? "";
const resolved = await viewerServiceResolveViewer({ token: session }, options);
const refused = await viewerServiceResolveViewer({ token: "no-such-token" }, options);
if (resolved.status !== 200 || refused.status !== 404)
  throw new Error("resolving a token returned an unexpected status");

const teamId: number = rest.data.user_group.team_id;
console.log(
  JSON.stringify({
    token: got.data.userGroup?.token,
    properties: got.data.userGroup?.properties,
    restToken: rest.data.user_group.token,
    teamId,
    session,
    providedId: resolved.data.providedId,
    code: refused.data.code,
  }),
);
