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
	// Interceptors are called around each try of a call, such as to count, log or trace it. The first one is the outermost.
	Interceptors []connect.Interceptor
}

// New makes a client, which connects with the first call.
//
// baseURL is where the service is, such as https://groups.example.com, perhaps with a path. New returns an error if the
// URL, the timeout, or the token of [StaticToken] is invalid.
func New(baseURL string, token TokenSource, options Options) (*Client, error) {
	if err := checkURL(baseURL); err != nil {
		return nil, err
	}
	if options.Timeout < 0 {
		return nil, fmt.Errorf("Options.Timeout is %v: it must be positive, or 0 for the default", options.Timeout)
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
	client := wholeAnswers{options.HTTPClient}
	interceptors := []connect.Interceptor{&calls{token: token, timeout: options.Timeout}}
	common := connect.WithClientOptions(
		connect.WithInterceptors(append(interceptors, options.Interceptors...)...),
		// net/http decompresses answers, so that their limit counts decompressed bytes.
		connect.WithAcceptCompression("gzip", nil, nil),
	)
	baseURL = strings.TrimRight(baseURL, "/")
	return &Client{
		UserGroups: usergroupv1connect.NewUserGroupServiceClient(client, baseURL, common),
		Viewers:    usergroupv1connect.NewViewerServiceClient(client, baseURL, common),
		Admin:      adminv1connect.NewAdminServiceClient(client, baseURL, common),
	}, nil
}

// checkURL returns an error, without the URL's credentials, if the service cannot be reached at a URL.
func checkURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return errors.New("the URL of the service must be like https://groups.example.com")
	}
	if parsed.User != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" {
		return errors.New("the URL of the service must have no password, query or fragment; give the API token as token")
	}
	return nil
}

func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
