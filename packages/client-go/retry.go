package usergroups

import (
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
	// Maximum pause before the second attempt. The maximum doubles with each further attempt, up to maxPause.
	firstPause = 250 * time.Millisecond
	maxPause   = 2 * time.Second
)

// pauseAfter returns the pause before the next attempt, and whether the call may be repeated.
func pauseAfter(err error, tries int, mayRepeat bool) (time.Duration, bool) {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return 0, false
	}
	wait, again := leastWait(failed, mayRepeat)
	// Half of the pause is random, so that clients do not retry at the same time.
	half := min(firstPause<<min(tries-1, 10), maxPause) / 2
	return wait + half + mathrand.N(half), again
}

// leastWait returns the minimum pause, and whether the call may be repeated.
func leastWait(failed *connect.Error, mayRepeat bool) (time.Duration, bool) {
	switch failed.Code() {
	case connect.CodeResourceExhausted:
		// If the server requests a pause, it has not executed the call. Otherwise, the caller has reached a limit that does
		// not end by itself, such as the maximum number of API tokens.
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

// isNeverSent returns whether the attempt failed before a connection existed.
func isNeverSent(failed *connect.Error) bool {
	var network *net.OpError
	return errors.As(failed, &network) && network.Op == "dial"
}

// retryAfter returns the pause that the service requests, if any.
func retryAfter(failed *connect.Error) (time.Duration, bool) {
	if info := detailOf[*errdetails.RetryInfo](failed); info.GetRetryDelay() != nil {
		return info.GetRetryDelay().AsDuration(), true
	}
	// The header can also be a date (RFC 9110, 10.2.3), but the service sends seconds.
	seconds, err := strconv.ParseUint(failed.Meta().Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}

func newRequestID() string { return rand.Text() }
