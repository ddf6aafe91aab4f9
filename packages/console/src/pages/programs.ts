import { quoted } from "../../../operator/src/input.ts";
import type { Programs } from "../parts/snippets.tsx";

/** The URL of the service that served the page, also behind a path of a proxy. */
function serviceUrl(): string {
  return new URL("..", document.baseURI).href.replace(/\/$/, "");
}

/** A string literal of TypeScript, Python and Go. Characters that nobody sees are escaped. */
function literal(text: string): string {
  const escaped = (each: string) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(text).replace(/[\p{C}\p{DI}\p{Zl}\p{Zp}](?<=[\0-\uffff])/gu, escaped);
}

/** Programs that create a viewer session of a user group. The API token comes from the environment variable `API_TOKEN`. */
export function sessionPrograms(userGroupId: string): Programs {
  const url = serviceUrl();
  const id = literal(userGroupId);
  const body = `{"userGroupId": ${id}, "audience": "dashboards", "viewerId": "bob"}`;
  return {
    curl: `curl -sS ${quoted(`${url}/usergroup.v1.ViewerService/CreateViewerSession`)} \\
  -H "Authorization: Token $API_TOKEN" \\
  -H "Content-Type: application/json" \\
  -d ${quoted(body)}`,
    TypeScript: `import { createUserGroupServiceClient } from "@user-group-service/client";

const service = createUserGroupServiceClient({
  url: "${url}",
  token: process.env.API_TOKEN,
});
const { session } = await service.viewers.createViewerSession({
  group: { case: "userGroupId", value: ${id} },
  audience: "dashboards",
  viewerId: "bob",
});
console.log(session);`,
    Python: `import os

from user_group_service import Client, CreateViewerSessionRequest, by_id

client = Client("${url}", os.environ["API_TOKEN"])
made = client.viewers.create_viewer_session(
    CreateViewerSessionRequest(group=by_id(${id}), audience="dashboards", viewer_id="bob")
)
print(made.session)`,
    Go: `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	usergroups "example.com/user-group-service/client-go"
	usergroupv1 "example.com/user-group-service/client-go/gen/usergroup/v1"
)

func main() {
	token := usergroups.StaticToken(os.Getenv("API_TOKEN"))
	client, err := usergroups.New("${url}", token, usergroups.Options{})
	if err != nil {
		log.Fatal(err)
	}
	made, err := client.Viewers.CreateViewerSession(context.Background(), &usergroupv1.CreateViewerSessionRequest{
		Group:    &usergroupv1.CreateViewerSessionRequest_UserGroupId{UserGroupId: ${id}},
		Audience: "dashboards",
		ViewerId: "bob",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(made.Session)
}`,
  };
}
