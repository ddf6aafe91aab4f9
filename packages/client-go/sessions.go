package usergroups

import (
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// By how much clocks may differ.
const leeway = 5 * time.Second

var (
	// ErrInvalidViewerSession is of a text that is not a viewer session that may be taken; the error says why. Answer it with
	// HTTP 401.
	ErrInvalidViewerSession = errors.New("invalid viewer session")
	// ErrKeysUnavailable is of keys that could not be read, so that nothing can be said of a session. Answer it with HTTP 503.
	ErrKeysUnavailable = errors.New("the keys of viewer sessions are not available")
)

// ViewerSession is what a verified viewer session says.
type ViewerSession struct {
	// ID is the claim jti.
	ID string
	// UserGroupID is the id that you gave the group: the claim sub.
	UserGroupID string
	// TeamID is the claim tid.
	TeamID int64
	// ViewerID is the person within the group, the claim vid; empty: nobody was named.
	ViewerID string
	// Origin is that of the page that the session was made for, if it was named.
	Origin string
	// Properties are those of the group that were asked for, as they were when the session was made.
	Properties map[string]any
	// Claims are what its maker added: the claim ext.
	Claims     map[string]any
	CreateTime time.Time
	ExpireTime time.Time
}

// Verifier verifies viewer sessions of one issuer by the keys that it publishes, without asking the service. It may be used
// by many goroutines; keep one for the whole process, for it keeps the keys.
//
// Who verifies alone does not see that a session was ended before its time: ResolveViewer tells.
type Verifier struct {
	issuer   string
	audience string
	keys     *publishedKeys
	now      func() time.Time
}

// NewVerifier makes a verifier.
//
// issuer is who makes your sessions, such as https://groups.example.com/e/acme/Customer: never take it from a session.
// audience is whom they are made for, the audience of CreateViewerSession.
func NewVerifier(issuer, audience string) *Verifier {
	keys := newPublishedKeys(issuer + "/.well-known/jwks.json")
	return &Verifier{issuer: issuer, audience: audience, keys: keys, now: time.Now}
}

// VerifyViewerSession verifies a viewer session. It fails with [ErrInvalidViewerSession] or [ErrKeysUnavailable].
func (v *Verifier) VerifyViewerSession(ctx context.Context, session string) (*ViewerSession, error) {
	verified, err := v.verify(ctx, session)
	if err != nil && !errors.Is(err, ErrKeysUnavailable) {
		return nil, fmt.Errorf("%w: %w", ErrInvalidViewerSession, err)
	}
	return verified, err
}

func (v *Verifier) verify(ctx context.Context, session string) (*ViewerSession, error) {
	if v.issuer == "" || v.audience == "" {
		return nil, errors.New("the verifier has no issuer or no audience: sessions of others would be taken")
	}
	read, err := readSession(session)
	if err != nil {
		return nil, err
	}
	// Before anything is asked of the issuer.
	if issuer, ok := read.claims["iss"].(string); ok && issuer != v.issuer {
		return nil, fmt.Errorf("it is of the issuer %.300q, not %q", issuer, v.issuer)
	}
	key, err := v.keys.key(ctx, read.kid)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256([]byte(read.signed))
	r, s := new(big.Int).SetBytes(read.signature[:32]), new(big.Int).SetBytes(read.signature[32:])
	if !ecdsa.Verify(key, digest[:], r, s) {
		return nil, errors.New("its signature is wrong")
	}
	verified, audience, err := viewerSessionOf(read.claims)
	switch now := v.now(); {
	case err != nil:
		return nil, err
	case audience != v.audience:
		return nil, fmt.Errorf("it was made for the audience %.300q, not %q", audience, v.audience)
	case !now.Before(verified.ExpireTime.Add(leeway)):
		return nil, errors.New("it has expired")
	case now.Before(verified.CreateTime.Add(-leeway)):
		return nil, errors.New("it is from the future: check the clocks")
	}
	return verified, nil
}
