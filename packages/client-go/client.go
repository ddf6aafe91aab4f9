// Package usergroups is a client of the User Group Service: user groups, their tokens, and viewer sessions.
package usergroups

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"example.com/user-group-service/client-go/gen/usergroup/admin/v1/adminv1connect"
	"example.com/user-group-service/client-go/gen/usergroup/v1/usergroupv1connect"
)

// Client calls the service. It may be used by many goroutines; keep one for the whole process.
type Client struct {
	// UserGroups gets, changes and creates user groups, and rotates their tokens.
	UserGroups usergroupv1connect.UserGroupServiceClient
	// Viewers makes viewer sessions, and tells whose a token or a session is.
	Viewers usergroupv1connect.ViewerServiceClient
	// Admin is AdminService, for API tokens of the role `admin`, and ADMIN_TOKEN.
	Admin adminv1connect.AdminServiceClient
}

// Options of a client. The zero value has the defaults.
type Options struct {
	// HTTPClient sends the requests, such as one that trusts an authority of your own. Let it follow no redirects, lest
	// another host sees the token. Default: one like [http.DefaultClient] that follows none.
	HTTPClient connect.HTTPClient
	// Timeout is how long a call may take, its retries included, when its context has no deadline. Default: 10 seconds.
	Timeout time.Duration
}

// New makes a client, which connects with the first call.
//
// baseURL is where the service is, such as https://groups.example.com. It fails for what is no such URL, and for a token of
// [StaticToken] that can be none.
func New(baseURL string, token TokenSource, options Options) (*Client, error) {
	parsed, err := url.Parse(baseURL)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return nil, fmt.Errorf("the URL of the service is %q: it has to be like https://groups.example.com", baseURL)
	}
	if token == nil {
		return nil, errors.New("the client has no API token: give it StaticToken(token), or a function")
	}
	if static, ok := token.(staticToken); ok {
		if _, err := authorization(string(static)); err != nil {
			return nil, err
		}
	}
	if options.HTTPClient == nil {
		options.HTTPClient = &http.Client{CheckRedirect: followNone}
	}
	if options.Timeout == 0 {
		options.Timeout = 10 * time.Second
	}
	interceptors := connect.WithInterceptors(&calls{token: token, timeout: options.Timeout})
	baseURL = strings.TrimRight(baseURL, "/")
	return &Client{
		UserGroups: usergroupv1connect.NewUserGroupServiceClient(options.HTTPClient, baseURL, interceptors),
		Viewers:    usergroupv1connect.NewViewerServiceClient(options.HTTPClient, baseURL, interceptors),
		Admin:      adminv1connect.NewAdminServiceClient(options.HTTPClient, baseURL, interceptors),
	}, nil
}

func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
