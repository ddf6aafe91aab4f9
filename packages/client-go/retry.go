package usergroups

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	mathrand "math/rand/v2"
	"net"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
)

const (
	// Maximum pause after the first failure. For each failure that follows, the maximum doubles, up to maxPause for calls
	// and maxStreamPause for streams.
	firstPause = 250 * time.Millisecond
	maxPause   = 2 * time.Second
)

// pauseAfter returns the pause before the next attempt, and whether the client may repeat the call. mayRepeat is true
// if a retry is safe even after the service has executed the call.
func pauseAfter(err error, tries int, mayRepeat bool) (time.Duration, bool) {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return 0, false
	}
	wait, again := leastWait(failed, mayRepeat)
	return wait + backoff(tries-1, maxPause), again
}

// backoff returns a pause of at most longest. The pause grows with the number of earlier failures.
func backoff(earlierFailures int, longest time.Duration) time.Duration {
	// Half of the pause is random, so that clients do not retry at the same time.
	half := min(firstPause<<min(earlierFailures, 10), longest) / 2
	return half + mathrand.N(half)
}

// sleep waits for the pause. sleep returns false if the context is done first.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// leastWait returns the pause that the server requests, or 0. The second result is whether the client may repeat the
// call.
func leastWait(failed *connect.Error, mayRepeat bool) (time.Duration, bool) {
	switch failed.Code() {
	case connect.CodeResourceExhausted:
		// If the server requests a pause, the server has not executed the call. If the server requests no pause, the
		// caller has reached a lasting limit, such as the maximum number of API tokens. A retry would fail as well.
		return retryAfter(failed)
	case connect.CodeUnavailable:
		if errors.As(failed, new(*tls.CertificateVerificationError)) {
			return 0, false
		}
		info := InfoOf(failed)
		notMade := info.GetMetadata()["outcome"] == "not_made"
		return 0, mayRepeat || notMade || (info == nil && isNeverSent(failed))
	default:
		return 0, false
	}
}

// mayBeExecuted returns whether the service may have executed an attempt that failed with a temporary error.
func mayBeExecuted(failed *connect.Error) bool {
	if info := InfoOf(failed); info != nil {
		return info.GetMetadata()["outcome"] == "unknown"
	}
	return failed.Code() != connect.CodeResourceExhausted && !isNeverSent(failed)
}

// isRefused returns whether a temporary error reports that nothing was changed.
func isRefused(failed *connect.Error) bool {
	return failed.Code() == connect.CodeResourceExhausted || InfoOf(failed).GetMetadata()["outcome"] == "not_made"
}

// isNeverSent returns whether the attempt failed before a connection existed.
func isNeverSent(failed *connect.Error) bool {
	var network *net.OpError
	return errors.As(failed, &network) && network.Op == "dial"
}

// retryAfter returns the pause that the service requests. The second result is false if the service requests no pause.
func retryAfter(failed *connect.Error) (time.Duration, bool) {
	if info := detailOf[*errdetails.RetryInfo](failed); info.GetRetryDelay() != nil {
		return info.GetRetryDelay().AsDuration(), true
	}
	// The header can also be a date (RFC 9110, 10.2.3), but the service sends seconds.
	seconds, err := strconv.ParseUint(failed.Meta().Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}

func newRequestID() string { return rand.Text() }
