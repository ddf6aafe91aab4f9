// Makes calls that the client can repeat safely, until standard input ends. Prints "ok" or an error for each call.
//
// Arguments: the URL of the service, and the timeout of a call. The API token is in API_TOKEN.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	usergroups "example.com/user-group-service/client-go"
	usergroupv1 "example.com/user-group-service/client-go/gen/usergroup/v1"
)

const loops = 24

func main() {
	timeout, err := time.ParseDuration(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	token := usergroups.StaticToken(os.Getenv("API_TOKEN"))
	client, err := usergroups.New(os.Args[1], token, usergroups.Options{Timeout: timeout})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan struct{})
	var group sync.WaitGroup
	for i := range loops {
		group.Add(1)
		go func() {
			defer group.Done()
			for n := 0; ; n++ {
				select {
				case <-ended:
					return
				case <-time.After(time.Millisecond):
				}
				if err := call(client, fmt.Sprint("steady-", i), n); err != nil {
					fmt.Println(err)
				} else {
					fmt.Println("ok")
				}
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	close(ended)
	group.Wait()
}

func call(client *usergroups.Client, id string, n int) error {
	ctx := context.Background()
	var err error
	switch n % 3 {
	case 0:
		_, err = client.UserGroups.GetUserGroup(ctx, &usergroupv1.GetUserGroupRequest{UserGroupId: id})
	case 1:
		_, err = client.UserGroups.RotateUserGroupToken(ctx, &usergroupv1.RotateUserGroupTokenRequest{
			Group: &usergroupv1.RotateUserGroupTokenRequest_UserGroupId{UserGroupId: id},
		})
	default:
		_, err = client.Viewers.CreateViewerSession(ctx, &usergroupv1.CreateViewerSessionRequest{
			Group:    &usergroupv1.CreateViewerSessionRequest_UserGroupId{UserGroupId: id},
			Audience: "dashboards",
		})
	}
	return err
}
