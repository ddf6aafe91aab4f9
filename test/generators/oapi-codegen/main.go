// Calls the service with the client that oapi-codegen has generated.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"example.com/generated/api"
)

func main() {
	ctx := context.Background()
	userGroupID := os.Getenv("USER_GROUP_ID")
	authorize := func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+os.Getenv("API_TOKEN"))
		return nil
	}
	client, err := api.NewClientWithResponses(os.Getenv("URL"), api.WithRequestEditorFn(authorize))
	must(err)

	got, err := client.UserGroupServiceGetUserGroupWithResponse(ctx, api.UsergroupV1GetUserGroupRequest{
		UserGroupId: userGroupID,
		Properties:  &map[string]any{"plan": "gold", "seats": []any{1, nil}},
	})
	must(err)
	rest, err := client.GetUserWithResponse(ctx, &api.GetUserParams{UserGroupId: userGroupID})
	must(err)
	made, err := client.ViewerServiceCreateViewerSessionWithResponse(ctx, api.UsergroupV1CreateViewerSessionRequest{
		UserGroupId: &userGroupID,
		Audience:    "https://dashboards.example.com",
	})
	must(err)
	resolve := func(token string) *api.ViewerServiceResolveViewerResponse {
		resolved, err := client.ViewerServiceResolveViewerWithResponse(ctx, api.UsergroupV1ResolveViewerRequest{Token: token})
		must(err)
		return resolved
	}

	var teamID int64 = rest.JSON200.UserGroup.TeamId
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"token":      got.JSON200.UserGroup.Token,
		"properties": got.JSON200.UserGroup.Properties,
		"restToken":  rest.JSON200.UserGroup.Token,
		"teamId":     teamID,
		"session":    made.JSON200.Session,
		"providedId": resolve(*made.JSON200.Session).JSON200.ProvidedId,
		"code":       fmt.Sprint(resolve("no-such-token").JSON404.Code),
	}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
