package usergroups

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
	usergroupv1 "example.com/user-group-service/client-go/gen/usergroup/v1"
)

// calls is an interceptor that sends the API token, and repeats failed calls that are safe to repeat.
type calls struct {
	token   TokenSource
	timeout time.Duration
}

func (c *calls) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if _, ok := ctx.Deadline(); !ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, c.timeout)
			defer cancel()
		}
		mayRepeat := request.Spec().IdempotencyLevel != connect.IdempotencyUnknown
		addRequestID(request)
		if message, ok := request.Any().(interface{ GetRequestId() string }); ok {
			mayRepeat = mayRepeat || message.GetRequestId() != ""
		}
		id := request.Header().Get(requestIDHeader)
		if id == "" {
			id = newRequestID()
			request.Header().Set(requestIDHeader, id)
		}
		// The error of the last attempt that the service may have executed.
		var uncertain error
		for tries := 1; ; tries++ {
			if err := c.present(ctx, request.Header()); err != nil {
				return nil, err
			}
			response, err := next(ctx, request)
			if err == nil {
				return response, nil
			}
			// If the service responded, the error already contains the request id that the service logged. Without a
			// response, add the id that the client sent, because the service may have received and logged the call.
			var failed *connect.Error
			if errors.As(err, &failed) && failed.Meta().Get(requestIDHeader) == "" {
				failed.Meta().Set(requestIDHeader, id)
			}
			pause, again := pauseAfter(err, tries, mayRepeat)
			if !again {
				return nil, err
			}
			if mayBeExecuted(failed) {
				uncertain = err
			}
			deadline, _ := ctx.Deadline()
			if pause >= time.Until(deadline) || !sleep(ctx, pause) {
				// If an earlier attempt may have changed something, do not report that nothing was changed.
				if uncertain != nil && isRefused(failed) {
					return nil, uncertain
				}
				return nil, err
			}
		}
	}
}

// WrapStreamingClient adds a request id and the API token to a stream. WatchEvents limits the time without a response,
// and replaces a broken stream.
func (c *calls) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		stream := next(ctx, spec)
		if stream.RequestHeader().Get(requestIDHeader) == "" {
			stream.RequestHeader().Set(requestIDHeader, newRequestID())
		}
		if err := c.present(ctx, stream.RequestHeader()); err != nil {
			return failedStream{stream, err}
		}
		return stream
	}
}

// failedStream is a stream that fails at the first Send, because its API token is not available.
type failedStream struct {
	connect.StreamingClientConn
	err error
}

func (s failedStream) Send(any) error { return s.err }

func (*calls) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

func (c *calls) present(ctx context.Context, header http.Header) error {
	token, err := c.currentToken(ctx)
	if err != nil {
		return err
	}
	value, err := authorization(token)
	if err != nil {
		return err
	}
	header.Set("Authorization", value)
	return nil
}

// currentToken returns the API token. If the context is done before the token source returns, currentToken fails.
func (c *calls) currentToken(ctx context.Context) (string, error) {
	if static, ok := c.token.(staticToken); ok {
		return string(static), nil
	}
	var token string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if cause := recover(); cause != nil {
				err = fmt.Errorf("the source of the API token panicked: %v", cause)
			}
		}()
		token, err = c.token.Token(ctx)
	}()
	select {
	case <-done:
		return token, err
	case <-ctx.Done():
		code := connect.CodeCanceled
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			code = connect.CodeDeadlineExceeded
		}
		return "", connect.NewError(code, fmt.Errorf("the source of the API token has not returned: %w", ctx.Err()))
	}
}

// addRequestID sets the field RequestId to a new id if the request has this field and the field is empty. A call with a
// RequestId is safe to repeat. addRequestID changes a copy of the message, so the caller's message keeps its content.
func addRequestID(request connect.AnyRequest) {
	switch request := request.(type) {
	case *connect.Request[usergroupv1.RotateUserGroupTokenRequest]:
		if request.Msg.GetRequestId() == "" {
			request.Msg = proto.CloneOf(request.Msg)
			request.Msg.RequestId = newRequestID()
		}
	case *connect.Request[adminv1.RevokeUserGroupTokensRequest]:
		if request.Msg.GetRequestId() == "" {
			request.Msg = proto.CloneOf(request.Msg)
			request.Msg.RequestId = newRequestID()
		}
	}
}
