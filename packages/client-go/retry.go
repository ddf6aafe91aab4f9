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
	// The longest pause before the second try. It doubles with each further try, up to maxPause.
	firstPause = 250 * time.Millisecond
	maxPause   = 2 * time.Second
)

// pauseAfter says how long to wait before a call that failed is tried again; false: it must not be.
func pauseAfter(err error, tries int, mayRepeat bool) (time.Duration, bool) {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return 0, false
	}
	wait, again := leastWait(failed, mayRepeat)
	// Half of it is random, so that callers that failed together do not return together.
	half := min(firstPause<<min(tries-1, 10), maxPause) / 2
	return wait + half + mathrand.N(half), again
}

// leastWait says how long to wait at least; false: the call must not be tried again.
func leastWait(failed *connect.Error, mayRepeat bool) (time.Duration, bool) {
	switch failed.Code() {
	case connect.CodeResourceExhausted:
		// With a time to wait nothing was done; without it another try would be refused just the same.
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

// isNeverSent tells whether no connection came about.
func isNeverSent(failed *connect.Error) bool {
	var network *net.OpError
	return errors.As(failed, &network) && network.Op == "dial"
}

// retryAfter is how long the service asks to wait; false: it does not ask for it.
func retryAfter(failed *connect.Error) (time.Duration, bool) {
	if info := detailOf[*errdetails.RetryInfo](failed); info.GetRetryDelay() != nil {
		return info.GetRetryDelay().AsDuration(), true
	}
	// The service sends no date here, the other form of the header (RFC 9110, 10.2.3).
	seconds, err := strconv.ParseUint(failed.Meta().Get("Retry-After"), 10, 31)
	return time.Duration(seconds) * time.Second, err == nil
}

func newRequestID() string { return rand.Text() }
