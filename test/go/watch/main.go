// Prints the type and group of each event of an environment, and "cursor" for each response without an event. When the
// stream ends, the program prints the error and exits.
//
// Argument: the URL of the service. The API token is in API_TOKEN.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	usergroups "example.com/user-group-service/client-go"
	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
)

func main() {
	client, err := usergroups.New(os.Args[1], usergroups.StaticToken(os.Getenv("API_TOKEN")), usergroups.Options{})
	if err != nil {
		log.Fatal(err)
	}
	request := &adminv1.WatchEventsRequest{Start: adminv1.WatchEventsRequest_START_NOW}
	for response, err := range usergroups.WatchEvents(context.Background(), client.Admin, request) {
		if err != nil {
			fmt.Println("error", usergroups.ReasonOf(err))
			return
		}
		if event := response.GetEvent(); event != nil {
			fmt.Println("event", event.GetType(), event.GetUserGroupId())
		} else {
			fmt.Println("cursor")
		}
	}
}
