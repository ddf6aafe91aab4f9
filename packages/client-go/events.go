package usergroups

import (
	"context"
	"crypto/tls"
	"errors"
	"iter"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
	"example.com/user-group-service/client-go/gen/usergroup/admin/v1/adminv1connect"
)

const (
	maxStreamPause = 30 * time.Second
	// Maximum time without a response. The service sends a response at least every 15 seconds. If no response arrives
	// for a minute, WatchEvents opens a new stream.
	silence = time.Minute
)

// WatchEvents iterates over the events of an environment. If the stream ends or breaks, WatchEvents connects again
// with the last cursor:
//
//	for response, err := range usergroups.WatchEvents(ctx, client.Admin, &adminv1.WatchEventsRequest{Cursor: stored}) {
//
// Store the cursor of each response after you have processed the response, and pass the stored cursor at the next
// start. A response without content contains only a new cursor. The iteration ends with an error if ctx is done, or
// after a permanent failure, such as EVENT_CURSOR_EXPIRED or a revoked API token. WatchEvents does not change the
// request.
func WatchEvents(
	ctx context.Context, admin adminv1connect.AdminServiceClient, request *adminv1.WatchEventsRequest,
) iter.Seq2[*adminv1.WatchEventsResponse, error] {
	return func(yield func(*adminv1.WatchEventsResponse, error) bool) {
		next := proto.CloneOf(request)
		for failures := 0; ; failures++ {
			received, goesOn, err := watchOnce(ctx, admin, next, yield)
			if !goesOn {
				return
			}
			if ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if received {
				failures = 0
			}
			if err == nil && received {
				continue
			}
			if err != nil && !isTemporary(err) {
				yield(nil, err)
				return
			}
			var wait time.Duration
			var failed *connect.Error
			if errors.As(err, &failed) {
				wait, _ = retryAfter(failed)
			}
			if !sleep(ctx, wait+backoff(failures, maxStreamPause)) {
				yield(nil, ctx.Err())
				return
			}
		}
	}
}

// watchOnce reads one stream. For each response, watchOnce sets the cursor of the next request to the cursor of the
// response. received is true if at least one response arrived. goesOn is false if the caller has left the loop.
func watchOnce(
	ctx context.Context, admin adminv1connect.AdminServiceClient, next *adminv1.WatchEventsRequest,
	yield func(*adminv1.WatchEventsResponse, error) bool,
) (received, goesOn bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(silence, cancel)
	defer timer.Stop()
	stream, err := admin.WatchEvents(ctx, next)
	if err != nil {
		return false, true, err
	}
	defer stream.Close()
	for stream.Receive() {
		timer.Stop()
		received = true
		response := stream.Msg()
		next.Cursor, next.Start = response.GetCursor(), adminv1.WatchEventsRequest_START_UNSPECIFIED
		if !yield(response, nil) {
			// Close reads until the end of the stream, so cancel the stream first.
			cancel()
			return received, false, nil
		}
		timer.Reset(silence)
	}
	err = stream.Err()
	cancel()
	return received, true, err
}

func isTemporary(err error) bool {
	if errors.As(err, new(*tls.CertificateVerificationError)) {
		return false
	}
	switch connect.CodeOf(err) {
	case connect.CodeUnavailable, connect.CodeResourceExhausted, connect.CodeDeadlineExceeded, connect.CodeAborted:
		return true
	case connect.CodeCanceled, connect.CodeUnknown, connect.CodeInternal, connect.CodeInvalidArgument:
		// If the error has no ErrorInfo, the service did not send the error, and the stream broke. connect reports a
		// broken message as an invalid argument.
		return InfoOf(err) == nil && errors.As(err, new(*connect.Error))
	default:
		return false
	}
}
