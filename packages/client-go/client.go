// Package usergroups is a client of the User Group Service, to manage user groups, and to create and verify viewer
// sessions.
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

// Client calls the service. A Client is safe for concurrent use. Use one client per process.
type Client struct {
	// UserGroups creates, gets and changes user groups, and rotates their tokens.
	UserGroups usergroupv1connect.UserGroupServiceClient
	// Viewers creates viewer sessions, and resolves tokens and sessions to user groups.
	Viewers usergroupv1connect.ViewerServiceClient
	// Admin calls AdminService, which manages environments, API tokens and webhooks. Admin needs an API token of role
	// `admin`, or ADMIN_TOKEN.
	Admin adminv1connect.AdminServiceClient
}

// Options contains the options of a client. If a field has its zero value, the default of the field applies.
type Options struct {
	// HTTPClient sends the requests. Set HTTPClient, for example, to trust a CA of your own. HTTPClient must not follow
	// redirects, because a redirect could send the API token to another host. Default: a client with the settings of
	// [http.DefaultClient], but without redirects.
	HTTPClient connect.HTTPClient
	// Timeout limits the total time of a call and its retries. If the context of the call has a deadline, that deadline
	// applies instead. Default: 10 seconds.
	Timeout time.Duration
	// Interceptors run for each attempt of a call, for example to write logs or traces. The first interceptor is the
	// outermost.
	Interceptors []connect.Interceptor
}

// New creates a client. The client connects at the first call.
//
// baseURL is the URL of the service, such as https://groups.example.com. The URL may have a path. New fails if the URL,
// the timeout or the token of [StaticToken] is invalid.
func New(baseURL string, token TokenSource, options Options) (*Client, error) {
	if err := checkURL(baseURL); err != nil {
		return nil, err
	}
	if options.Timeout < 0 {
		return nil, fmt.Errorf("Options.Timeout is %v: it must be positive, or 0 for the default", options.Timeout)
	}
	if token == nil {
		return nil, errors.New("the client has no API token: pass StaticToken(token) or a TokenFunc")
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
		// connect must not decompress responses. net/http decompresses them before wholeAnswers reads them, so the size
		// limit counts decompressed bytes.
		connect.WithAcceptCompression("gzip", nil, nil),
	)
	baseURL = strings.TrimRight(baseURL, "/")
	return &Client{
		UserGroups: usergroupv1connect.NewUserGroupServiceClient(client, baseURL, common),
		Viewers:    usergroupv1connect.NewViewerServiceClient(client, baseURL, common),
		Admin:      adminv1connect.NewAdminServiceClient(client, baseURL, common),
	}, nil
}

// checkURL fails if the URL cannot be the URL of a service. The error does not contain the URL, because the URL can
// contain a password.
func checkURL(text string) error {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return errors.New("the URL of the service must be like https://groups.example.com")
	}
	if parsed.User != nil || parsed.RawQuery != "" || parsed.ForceQuery || parsed.Fragment != "" {
		return errors.New("the URL of the service must have no password, query or fragment; pass the API token in `token`")
	}
	return nil
}

func followNone(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
