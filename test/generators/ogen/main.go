// Calls the service with the client that ogen has generated.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"example.com/generated/api"
	"github.com/go-faster/jx"
	"github.com/ogen-go/ogen/ogenerrors"
)

// tokens sends the API token as a bearer token. It does not use the other two ways that the document allows.
type tokens struct{}

func (tokens) Bearer(context.Context, api.OperationName) (api.Bearer, error) {
	return api.Bearer{Token: os.Getenv("API_TOKEN")}, nil
}

func (tokens) ExploToken(context.Context, api.OperationName) (api.ExploToken, error) {
	return api.ExploToken{}, ogenerrors.ErrSkipClientSecurity
}

func (tokens) Token(context.Context, api.OperationName) (api.Token, error) {
	return api.Token{}, ogenerrors.ErrSkipClientSecurity
}

func main() {
	ctx := context.Background()
	userGroupID := os.Getenv("USER_GROUP_ID")
	client, err := api.NewClient(os.Getenv("URL"), tokens{})
	must(err)

	properties := api.UsergroupV1GetUserGroupRequestProperties{"plan": jx.Raw(`"gold"`), "seats": jx.Raw("[1,null]")}
	got, err := client.UserGroupServiceGetUserGroup(ctx, &api.UsergroupV1GetUserGroupRequest{
		UserGroupId: userGroupID,
		Properties:  api.NewOptUsergroupV1GetUserGroupRequestProperties(properties),
	})
	must(err)
	rest, err := client.GetUser(ctx, api.GetUserParams{UserGroupID: userGroupID})
	must(err)
	made, err := client.ViewerServiceCreateViewerSession(ctx, &api.UsergroupV1CreateViewerSessionRequest{
		UserGroupId: api.NewOptString(userGroupID),
		Audience:    "https://dashboards.example.com",
	})
	must(err)
	session := made.(*api.UsergroupV1CreateViewerSessionResponse).Session.Value
	resolve := func(token string) api.ViewerServiceResolveViewerRes {
		resolved, err := client.ViewerServiceResolveViewer(ctx, &api.UsergroupV1ResolveViewerRequest{Token: token})
		must(err)
		return resolved
	}

	group := got.(*api.UsergroupV1GetUserGroupResponse).UserGroup.Value
	answered := map[string]any{}
	for name, value := range group.Properties.Value {
		answered[name] = json.RawMessage(value)
	}
	restGroup := rest.(*api.RestGotGroupHeaders).Response.UserGroup
	var teamID int64 = restGroup.TeamID
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"token":      group.Token.Value,
		"properties": answered,
		"restToken":  restGroup.Token,
		"teamId":     teamID,
		"session":    session,
		"providedId": resolve(session).(*api.UsergroupV1ResolveViewerResponse).ProvidedId.Value,
		"code":       resolve("no-such-token").(*api.ViewerServiceResolveViewerNotFound).Code,
	}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
