// Calls the service with the client that openapi-generator has generated.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"

	"example.com/generated/api"
)

func main() {
	ctx := context.WithValue(context.Background(), api.ContextAccessToken, os.Getenv("API_TOKEN"))
	userGroupID := os.Getenv("USER_GROUP_ID")
	configuration := api.NewConfiguration()
	configuration.Servers = api.ServerConfigurations{{URL: os.Getenv("URL")}}
	client := api.NewAPIClient(configuration)

	var plan, seats any = "gold", []any{1, nil}
	request := api.NewUsergroupV1GetUserGroupRequest(userGroupID)
	request.SetProperties(map[string]*any{"plan": &plan, "seats": &seats})
	got, _, err := client.UserGroupServiceAPI.UserGroupServiceGetUserGroup(ctx).UsergroupV1GetUserGroupRequest(*request).Execute()
	must(err)
	rest, _, err := client.RESTAPI.GetUser(ctx).UserGroupId(userGroupID).Execute()
	must(err)
	creation := api.NewUsergroupV1CreateViewerSessionRequest("https://dashboards.example.com")
	creation.SetUserGroupId(userGroupID)
	made, _, err := client.ViewerServiceAPI.ViewerServiceCreateViewerSession(ctx).UsergroupV1CreateViewerSessionRequest(*creation).Execute()
	must(err)
	resolve := func(token string) (*api.UsergroupV1ResolveViewerResponse, error) {
		resolution := api.NewUsergroupV1ResolveViewerRequest(token)
		resolved, _, err := client.ViewerServiceAPI.ViewerServiceResolveViewer(ctx).UsergroupV1ResolveViewerRequest(*resolution).Execute()
		return resolved, err
	}
	resolved, err := resolve(made.GetSession())
	must(err)
	_, err = resolve("no-such-token")
	var refusal *api.GenericOpenAPIError
	if !errors.As(err, &refusal) {
		log.Fatal("the client returned no GenericOpenAPIError for an unknown token")
	}
	refused := refusal.Model().(api.ConnectError)

	group := got.GetUserGroup()
	var teamID int64 = rest.UserGroup.TeamId
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"token":      group.GetToken(),
		"properties": group.GetProperties(),
		"restToken":  rest.UserGroup.Token,
		"teamId":     teamID,
		"session":    made.GetSession(),
		"providedId": resolved.GetProvidedId(),
		"code":       refused.Code,
	}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
