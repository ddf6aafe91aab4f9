package usergroups

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"

	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
	usergroupv1 "example.com/user-group-service/client-go/gen/usergroup/v1"
)

const testToken = "t0ken-of-the-tests"

type asked struct {
	header http.Header
	body   []byte
}

// answering starts a server that returns the given responses, then repeats the last response. The returned function
// returns the requests so far.
func answering(t *testing.T, answers ...http.HandlerFunc) (*httptest.Server, func() []asked) {
	handler, requests := recording(answers...)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server, requests
}

func recording(answers ...http.HandlerFunc) (http.Handler, func() []asked) {
	var mutex sync.Mutex
	var requests []asked
	handler := http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		mutex.Lock()
		requests = append(requests, asked{request.Header.Clone(), body})
		answer := answers[min(len(requests), len(answers))-1]
		mutex.Unlock()
		answer(response, request)
	})
	return handler, func() []asked {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(requests)
	}
}

func ok(message proto.Message) http.HandlerFunc {
	return func(response http.ResponseWriter, _ *http.Request) {
		body, _ := proto.Marshal(message)
		response.Header().Set("Content-Type", "application/proto")
		response.Write(body)
	}
}

func failing(status int, code, retryAfter string, details ...proto.Message) http.HandlerFunc {
	return func(response http.ResponseWriter, _ *http.Request) {
		encoded := []map[string]string{}
		for _, each := range details {
			body, _ := proto.Marshal(each)
			name := string(each.ProtoReflect().Descriptor().FullName())
			encoded = append(encoded, map[string]string{"type": name, "value": base64.RawStdEncoding.EncodeToString(body)})
		}
		response.Header().Set("Content-Type", "application/json")
		if retryAfter != "" {
			response.Header().Set("Retry-After", retryAfter)
		}
		response.WriteHeader(status)
		json.NewEncoder(response).Encode(map[string]any{"code": code, "message": "so", "details": encoded})
	}
}

func lost(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// reset resets the connection before any response. If the request uses HTTP/2, reset resets only the stream.
func reset(response http.ResponseWriter, _ *http.Request) {
	connection, _, err := http.NewResponseController(response).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	beneath := connection.(*tls.Conn).NetConn()
	beneath.(*net.TCPConn).SetLinger(0)
	beneath.Close()
}

func cut(status int, header http.Header) http.HandlerFunc {
	return func(response http.ResponseWriter, _ *http.Request) {
		response.Header().Set("Content-Type", "application/proto")
		maps.Copy(response.Header(), header)
		response.WriteHeader(status)
		response.Write([]byte{0})
		http.NewResponseController(response).Flush()
		panic(http.ErrAbortHandler)
	}
}

func info(reason, domain, outcome string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: reason, Domain: domain, Metadata: map[string]string{"outcome": outcome}}
}

var (
	unknown    = failing(503, "unavailable", "", info("STORE_UNAVAILABLE", errorDomain, "unknown"))
	notMade    = failing(503, "unavailable", "", info("STORE_UNAVAILABLE", errorDomain, "not_made"))
	overloaded = failing(429, "resource_exhausted", "0", info("OVERLOADED", errorDomain, ""))
	full       = failing(429, "resource_exhausted", "", info("ENVIRONMENT_FULL", errorDomain, ""))
	proxy      = failing(503, "unavailable", "")
	ofOthers   = failing(503, "unavailable", "", info("X", "a-proxy", "not_made"))
	created    = ok(&usergroupv1.GetUserGroupResponse{NewUserGroup: true})
	done       = ok(&usergroupv1.UpdateUserGroupResponse{})
)

func newClient(t *testing.T, url string) *Client {
	return newClientWith(t, url, Options{})
}

func newClientWith(t *testing.T, url string, options Options) *Client {
	client, err := New(url, StaticToken(testToken), options)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestRepeatsCallsThatAreSafeToRepeat(t *testing.T) {
	get := func(ctx context.Context, client *Client) error {
		_, err := client.UserGroups.GetUserGroup(ctx, &usergroupv1.GetUserGroupRequest{UserGroupId: "acme"})
		return err
	}
	update := func(ctx context.Context, client *Client) error {
		_, err := client.UserGroups.UpdateUserGroup(ctx, &usergroupv1.UpdateUserGroupRequest{UserGroupId: "acme", Name: "Acme"})
		return err
	}
	// This deadline is after the first pause and before the end of the second pause.
	soon := func(call func(context.Context, *Client) error) func(context.Context, *Client) error {
		return func(ctx context.Context, client *Client) error {
			ctx, cancel := context.WithTimeout(ctx, firstPause+firstPause/2)
			defer cancel()
			return call(ctx, client)
		}
	}
	cases := map[string]struct {
		call    func(context.Context, *Client) error
		answers []http.HandlerFunc
		tries   int
		code    connect.Code
	}{
		"repeats a Get until its deadline": {
			soon(get), []http.HandlerFunc{unknown}, 2, connect.CodeUnavailable,
		},
		"repeats a Get after each temporary failure":                {get, []http.HandlerFunc{proxy, lost, unknown, created}, 4, 0},
		"does not repeat a change whose outcome is unknown":         {update, []http.HandlerFunc{unknown, done}, 1, connect.CodeUnavailable},
		"does not repeat a change that a proxy refused":             {update, []http.HandlerFunc{proxy, done}, 1, connect.CodeUnavailable},
		"does not repeat a change whose connection broke":           {update, []http.HandlerFunc{lost, done}, 1, connect.CodeUnavailable},
		"does not repeat a change that a proxy reports as not made": {update, []http.HandlerFunc{ofOthers, done}, 1, connect.CodeUnavailable},
		"repeats a change that the service did not make":            {update, []http.HandlerFunc{notMade, overloaded, done}, 3, 0},
		"does not repeat a refused call if Retry-After is missing":  {get, []http.HandlerFunc{full, created}, 1, connect.CodeResourceExhausted},
		"does not repeat a refused call if Retry-After is later than the deadline": {
			get, []http.HandlerFunc{failing(429, "resource_exhausted", "60"), created}, 1, connect.CodeResourceExhausted,
		},
		"does not repeat a refused call if Retry-After is a date": {
			get, []http.HandlerFunc{failing(429, "resource_exhausted", "Fri, 31 Dec 1999 23:59:59 GMT"), created}, 1,
			connect.CodeResourceExhausted,
		},
		"does not repeat a call after NOT_FOUND": {get, []http.HandlerFunc{failing(404, "not_found", ""), created}, 1, connect.CodeNotFound},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, requests := answering(t, each.answers...)
			began := time.Now()
			err := each.call(t.Context(), newClient(t, server.URL))
			if len(requests()) != each.tries || (err == nil) != (each.code == 0) || (err != nil && connect.CodeOf(err) != each.code) {
				t.Errorf("%d tries, then %v", len(requests()), err)
			}
			if time.Since(began) > 9*time.Second {
				t.Error("the call waited until the deadline")
			}
		})
	}
}

func TestReportsTheOutcomeOfAllAttemptsNotOnlyOfTheLast(t *testing.T) {
	cases := map[string]struct {
		answers []http.HandlerFunc
		outcome string
	}{
		"reports unknown if the first attempt may have made a change":                            {[]http.HandlerFunc{unknown, notMade}, "unknown"},
		"reports no outcome if the connection of the first attempt broke":                        {[]http.HandlerFunc{lost, notMade}, ""},
		"reports unknown if the first attempt may have made a change and the second was refused": {[]http.HandlerFunc{unknown, overloaded}, "unknown"},
		"reports not_made if no attempt can have made a change":                                  {[]http.HandlerFunc{overloaded, notMade}, "not_made"},
	}
	for name, each := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, requests := answering(t, each.answers...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := newClient(t, server.URL).UserGroups.GetUserGroup(ctx, &usergroupv1.GetUserGroupRequest{UserGroupId: "acme"})
			if outcome := InfoOf(err).GetMetadata()["outcome"]; len(requests()) < 2 || err == nil || outcome != each.outcome {
				t.Errorf("%d tries, then %v with the outcome %q", len(requests()), err, outcome)
			}
		})
	}
}

func TestRepeatsCallsThatWereNotSent(t *testing.T) {
	t.Parallel()
	server, _ := answering(t, done)
	server.Close()
	dials := 0
	client, err := New(server.URL, TokenFunc(func(context.Context) (string, error) { dials++; return testToken, nil }), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = client.UserGroups.UpdateUserGroup(ctx, &usergroupv1.UpdateUserGroupRequest{UserGroupId: "acme"})
	if dials < 2 || connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("%d tries, then %v", dials, err)
	}
}

func TestRepeatsChangesWithOneRequestIDAndKeepsTheMessageUnchanged(t *testing.T) {
	rotation := &usergroupv1.RotateUserGroupTokenRequest{
		Group: &usergroupv1.RotateUserGroupTokenRequest_UserGroupId{UserGroupId: "acme"},
	}
	revocation := &adminv1.RevokeUserGroupTokensRequest{UserGroupId: "acme"}
	type identified interface {
		proto.Message
		GetRequestId() string
	}
	for _, each := range []struct {
		message, sent identified
		answer        proto.Message
		call          func(*Client) error
	}{
		{rotation, &usergroupv1.RotateUserGroupTokenRequest{}, &usergroupv1.RotateUserGroupTokenResponse{}, func(client *Client) error {
			_, err := client.UserGroups.RotateUserGroupToken(t.Context(), rotation)
			return err
		}},
		{revocation, &adminv1.RevokeUserGroupTokensRequest{}, &adminv1.RevokeUserGroupTokensResponse{}, func(client *Client) error {
			_, err := client.Admin.RevokeUserGroupTokens(t.Context(), revocation)
			return err
		}},
	} {
		server, requests := answering(t, unknown, lost, ok(each.answer))
		if err := each.call(newClient(t, server.URL)); err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, request := range requests() {
			if err := proto.Unmarshal(request.body, each.sent); err != nil {
				t.Fatal(err)
			}
			ids[each.sent.GetRequestId()] = true
		}
		if len(requests()) != 3 || len(ids) != 1 || ids[""] || each.message.GetRequestId() != "" {
			t.Errorf("%d tries with %v; the message has %q", len(requests()), ids, each.message.GetRequestId())
		}
	}
}

func TestRequestsPagesOneByOne(t *testing.T) {
	page := func(next string) http.HandlerFunc { return ok(&adminv1.ListUserGroupsResponse{NextPageToken: next}) }
	server, requests := answering(t, page("two"), page("three"), page(""), page("two"), failing(404, "not_found", ""))
	client := newClient(t, server.URL)
	request := &adminv1.ListUserGroupsRequest{ProvidedIdPrefix: "a"}
	pages, failures := 0, 0
	for range 2 {
		for _, err := range Pages(t.Context(), client.Admin.ListUserGroups, request) {
			if pages++; err != nil {
				failures++
			}
		}
	}
	for range Pages(t.Context(), client.Admin.ListUserGroups, request) {
		break
	}
	tokens := []string{}
	for _, each := range requests() {
		var sent adminv1.ListUserGroupsRequest
		if err := proto.Unmarshal(each.body, &sent); err != nil || sent.GetProvidedIdPrefix() != "a" {
			t.Fatal(err, &sent)
		}
		tokens = append(tokens, sent.GetPageToken())
	}
	if pages != 5 || failures != 1 || request.GetPageToken() != "" || !slices.Equal(tokens, []string{"", "two", "three", "", "two", ""}) {
		t.Errorf("%d pages and %d failures with the page tokens %q", pages, failures, tokens)
	}
}

func TestSendsTheRemainingTimeAndTheCurrentTokenWithEachAttempt(t *testing.T) {
	server, requests := answering(t, unknown, unknown, created)
	tokens := 0
	source := TokenFunc(func(context.Context) (string, error) { tokens++; return testToken + strconv.Itoa(tokens) + "\n", nil })
	client, err := New(server.URL+"/", source, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{UserGroupId: "acme"}); err != nil {
		t.Fatal(err)
	}
	left := 10_001
	for i, each := range requests() {
		now, _ := strconv.Atoi(each.header.Get("Connect-Timeout-Ms"))
		if now >= left || now == 0 || each.header.Get("Authorization") != "Token "+testToken+strconv.Itoa(i+1) {
			t.Errorf("attempt %d: %d ms remain, after %d ms; Authorization is %q", i+1, now, left, each.header.Get("Authorization"))
		}
		left = now
	}
}

func TestDoesNotFollowRedirects(t *testing.T) {
	other, requests := answering(t, created)
	server, _ := answering(t, func(response http.ResponseWriter, request *http.Request) {
		http.Redirect(response, request, other.URL, http.StatusTemporaryRedirect)
	})
	_, err := newClient(t, server.URL).UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{UserGroupId: "acme"})
	if err == nil || len(requests()) != 0 {
		t.Errorf("%d requests, then %v", len(requests()), err)
	}
}

func TestRejectsInvalidOptionsWithoutShowingTheToken(t *testing.T) {
	for token, says := range map[string]string{"": "empty", " \n": "empty", "se cret": "invalid characters", "s€cret": "invalid characters"} {
		_, err := New("http://127.0.0.1:1", StaticToken(token), Options{})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "cret") {
			t.Errorf("%q: %v", token, err)
		}
	}
	for _, url := range []string{
		"", "groups.example.com", "ftp://groups.example.com", "http://", "http://a b", "https://me:secret@a%zz.example",
		"https://me:secret@groups.example.com", "https://groups.example.com?a=b", "https://groups.example.com/?",
		"https://groups.example.com/#a",
	} {
		_, err := New(url, StaticToken(testToken), Options{})
		if err == nil || !strings.HasPrefix(err.Error(), "the URL of the service must ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := New("http://127.0.0.1:1", StaticToken(testToken), Options{Timeout: -time.Second}); err == nil {
		t.Error("New accepted a negative timeout")
	}
	if _, err := New("http://127.0.0.1:1", nil, Options{}); err == nil {
		t.Error("New accepted a nil token")
	}
}

func TestReadsTheMessageOfASuspension(t *testing.T) {
	for _, message := range []string{"Call us.", ""} {
		suspended := &errdetails.ErrorInfo{Reason: "USER_GROUP_SUSPENDED", Domain: errorDomain}
		if message != "" {
			suspended.Metadata = map[string]string{"suspension_message": message}
		}
		server, _ := answering(t, failing(400, "failed_precondition", "", suspended))
		_, err := newClient(t, server.URL).Viewers.ResolveViewer(t.Context(), &usergroupv1.ResolveViewerRequest{})
		if found, isSuspended := SuspensionOf(err); found != message || !isSuspended {
			t.Errorf("%q, %v of %v", found, isSuspended, err)
		}
	}
	if found, isSuspended := SuspensionOf(errors.New("so")); found != "" || isSuspended {
		t.Errorf("%q, %v", found, isSuspended)
	}
}

func TestReadsReasonsAndViolations(t *testing.T) {
	violation := &errdetails.BadRequest_FieldViolation{Field: "name", Description: "is long"}
	violations := &errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{violation}}
	server, _ := answering(t, failing(400, "invalid_argument", "", info("VALIDATION_FAILED", errorDomain, ""), violations))
	_, err := newClient(t, server.URL).UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{})
	if ReasonOf(err) != "VALIDATION_FAILED" || !reflect.DeepEqual(ViolationsOf(err), map[string]string{"name": "is long"}) {
		t.Errorf("%q, %v of %v", ReasonOf(err), ViolationsOf(err), err)
	}
	server, _ = answering(t, failing(500, "internal", "", info("X", "a-proxy", "")))
	_, ofProxy := newClient(t, server.URL).UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{})
	for _, err := range []error{nil, errors.New("so"), ofProxy} {
		if ReasonOf(err) != "" || len(ViolationsOf(err)) != 0 {
			t.Errorf("%q, %v of %v", ReasonOf(err), ViolationsOf(err), err)
		}
	}
}

func TestReportsBrokenResponsesAsUnavailableAndRepeatsSafeCalls(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"the connection closes before the response": lost,
		"the connection is reset":                   reset,
		"the chunked body breaks off":               cut(200, nil),
		"the body is shorter than Content-Length":   cut(200, http.Header{"Content-Length": {"9"}}),
		"the compressed body breaks off":            cut(200, http.Header{"Content-Encoding": {"gzip"}}),
		"the body of an error breaks off":           cut(404, nil),
	}
	for name, answer := range answers {
		for _, isHTTP2 := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", HTTP/2 ", isHTTP2), func(t *testing.T) {
				t.Parallel()
				handler, requests := recording(answer, created, answer, done)
				server := httptest.NewUnstartedServer(handler)
				server.EnableHTTP2 = isHTTP2
				server.StartTLS()
				t.Cleanup(server.Close)
				client, err := New(server.URL, StaticToken(testToken), Options{HTTPClient: server.Client()})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := client.UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{}); err != nil || len(requests()) != 2 {
					t.Errorf("a call that is safe to repeat: %d requests, then %v", len(requests()), err)
				}
				_, err = client.UserGroups.UpdateUserGroup(t.Context(), &usergroupv1.UpdateUserGroupRequest{})
				if connect.CodeOf(err) != connect.CodeUnavailable || len(requests()) != 3 {
					t.Errorf("a change: %d requests, then %v", len(requests()), err)
				}
			})
		}
	}
}

func TestLimitsTheSizeOfResponses(t *testing.T) {
	zeros := make([]byte, 1<<20)
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	writer.Write(zeros)
	writer.Close()
	endless := func(status int, chunk []byte, header http.Header) http.HandlerFunc {
		return func(response http.ResponseWriter, _ *http.Request) {
			maps.Copy(response.Header(), header)
			response.WriteHeader(status)
			for {
				if _, err := response.Write(chunk); err != nil {
					return
				}
			}
		}
	}
	message := http.Header{"Content-Type": {"application/proto"}}
	gzipped := http.Header{"Content-Type": {"application/proto"}, "Content-Encoding": {"gzip"}}
	for name, answer := range map[string]http.HandlerFunc{
		"an answer":           endless(200, zeros, message),
		"an error":            endless(400, zeros, message),
		"a compressed answer": endless(200, compressed.Bytes(), gzipped),
		"a compressed error":  endless(400, compressed.Bytes(), gzipped),
	} {
		t.Run(name, func(t *testing.T) {
			server, requests := answering(t, answer)
			// The race detector makes the decompression of 64 MiB slow.
			client := newClientWith(t, server.URL, Options{Timeout: 5 * time.Minute})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := client.UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{})
			runtime.ReadMemStats(&after)
			if connect.CodeOf(err) != connect.CodeResourceExhausted || len(requests()) != 1 {
				t.Errorf("%d requests, then %v", len(requests()), err)
			}
			if taken := after.Sys - before.Sys; taken > 8*maxAnswerBytes {
				t.Errorf("the process took %d MiB from the system", taken>>20)
			}
		})
	}
}

func TestEndsACallAtItsDeadlineIfTheTokenSourceHangs(t *testing.T) {
	server, requests := answering(t, created)
	released := make(chan struct{})
	defer close(released)
	hanging := TokenFunc(func(context.Context) (string, error) { <-released; return testToken, nil })
	client, err := New(server.URL, hanging, Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, late := client.UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{})
	if connect.CodeOf(late) != connect.CodeDeadlineExceeded || !errors.Is(late, context.DeadlineExceeded) {
		t.Error(late)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, canceled := client.UserGroups.GetUserGroup(ctx, &usergroupv1.GetUserGroupRequest{})
	if connect.CodeOf(canceled) != connect.CodeCanceled || !errors.Is(canceled, context.Canceled) {
		t.Error(canceled)
	}
	panicking := TokenFunc(func(context.Context) (string, error) { panic("so") })
	client, err = New(server.URL, panicking, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{}); err == nil {
		t.Error("the source returned a token")
	}
	if len(requests()) != 0 {
		t.Error("the client sent a call without a token")
	}
}

func TestSendsARequestIDAndCallsInterceptorsForEachAttempt(t *testing.T) {
	server, requests := answering(t, unknown, created, failing(404, "not_found", ""))
	seen := []string{}
	noting := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			response, err := next(ctx, request)
			seen = append(seen, fmt.Sprint(request.Spec().Procedure[1:], " ", connect.CodeOf(err)))
			return response, err
		}
	})
	client, err := New(server.URL, StaticToken(testToken), Options{Interceptors: []connect.Interceptor{noting}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{}); err != nil {
		t.Fatal(err)
	}
	_, failed := client.UserGroups.GetUserGroup(t.Context(), &usergroupv1.GetUserGroupRequest{})
	ids := []string{}
	for _, each := range requests() {
		ids = append(ids, each.header.Get("X-Request-Id"))
	}
	if ids[0] == "" || ids[0] != ids[1] || ids[1] == ids[2] || RequestIDOf(failed) != ids[2] || RequestIDOf(errors.New("so")) != "" {
		t.Errorf("the requests have the ids %q, but the error has %q", ids, RequestIDOf(failed))
	}
	method := "usergroup.v1.UserGroupService/GetUserGroup "
	if !slices.Equal(seen, []string{method + "unavailable", method + "unknown", method + "not_found"}) {
		t.Errorf("%q", seen)
	}
}
