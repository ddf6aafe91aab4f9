import names from "../../../../release.json" with { type: "json" };
import { quoted } from "../../../operator/src/input.ts";
import type { Programs } from "../parts/snippets.tsx";

/** A call, and the code of the call in each language. */
interface Call {
  /** The service and the method, as in the path of the URL. */
  readonly path: string;
  /** The request body in JSON. */
  readonly body: string;
  /** Additional options of curl. */
  readonly options?: string;
  readonly typescript: readonly [call: string, result: string];
  readonly python: readonly [types: string, call: string, result: string];
  readonly go: readonly [call: string, result: string];
}

/** Returns programs that make a call. The programs read the API token from the environment variable `API_TOKEN`. */
function programsOf({ path, body, options = "", typescript, python, go }: Call): Programs {
  // The console is in a folder below the base URL of the service. A proxy may add a path to the base URL.
  const url = new URL("..", document.baseURI).href.replace(/\/$/, "");
  return {
    curl: `curl -sS ${quoted(`${url}/${path}`)} \\
  -H "Authorization: Token $API_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d ${quoted(body)}${options}`,
    TypeScript: `import { createUserGroupServiceClient } from "${names.npm.client}";

const service = createUserGroupServiceClient({
  url: "${url}",
  token: process.env.API_TOKEN ?? "",
});
const made = await service.${typescript[0]};
console.log(made.${typescript[1]});`,
    Python: `import os

from user_group_service import Client, ${python[0]}

client = Client("${url}", os.environ["API_TOKEN"])
made = client.${python[1]}
print(made.${python[2]})`,
    Go: `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	usergroups "${names.goModule}"
	usergroupv1 "${names.goModule}/gen/usergroup/v1"
)

func main() {
	token := usergroups.StaticToken(os.Getenv("API_TOKEN"))
	client, err := usergroups.New("${url}", token, usergroups.Options{})
	if err != nil {
		log.Fatal(err)
	}
	made, err := client.${go[0]}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made.${go[1]})
}`,
  };
}

/** Formats a string literal that is valid in TypeScript, Python and Go. Invisible characters are escaped. */
function literal(text: string): string {
  const escaped = (each: string) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(/[\p{C}\p{DI}\p{Zl}\p{Zp}](?<=[\0-\uffff])/gu, escaped);
}

/** Returns programs that create a user group if it does not exist. The programs do not print the token of the group. */
export function groupPrograms(userGroupId: string): Programs {
  const id = literal(userGroupId);
  return programsOf({
    path: "usergroup.v1.UserGroupService/GetUserGroup",
    body: `{"userGroupId": ${id}, "name": "Acme"}`,
    // Discards the response body, because the body contains the token of the group.
    options: ` \\
  -o /dev/null -w "%{http_code}\\n"`,
    typescript: [`userGroups.getUserGroup({ userGroupId: ${id}, name: "Acme" })`, "newUserGroup"],
    python: [
      "GetUserGroupRequest",
      `user_groups.get_user_group(GetUserGroupRequest(user_group_id=${id}, name="Acme"))`,
      "new_user_group",
    ],
    go: [
      `UserGroups.GetUserGroup(context.Background(), &usergroupv1.GetUserGroupRequest{UserGroupId: ${id}})`,
      "NewUserGroup",
    ],
  });
}

/** Returns programs that create a viewer session of a user group. */
export function sessionPrograms(userGroupId: string): Programs {
  const id = literal(userGroupId);
  return programsOf({
    path: "usergroup.v1.ViewerService/CreateViewerSession",
    body: `{"userGroupId": ${id}, "audience": "dashboards", "viewerId": "bob"}`,
    typescript: [
      `viewers.createViewerSession({
  group: { case: "userGroupId", value: ${id} },
  audience: "dashboards",
  viewerId: "bob",
})`,
      "session",
    ],
    python: [
      "CreateViewerSessionRequest, by_id",
      `viewers.create_viewer_session(
    CreateViewerSessionRequest(group=by_id(${id}), audience="dashboards", viewer_id="bob")
)`,
      "session",
    ],
    go: [
      `Viewers.CreateViewerSession(context.Background(), &usergroupv1.CreateViewerSessionRequest{
		Group:    &usergroupv1.CreateViewerSessionRequest_UserGroupId{UserGroupId: ${id}},
		Audience: "dashboards",
		ViewerId: "bob",
	})`,
      "Session",
    ],
  });
}
