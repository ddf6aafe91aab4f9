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

// Maximum accepted difference between the clocks of the service and of this machine.
const leeway = 5 * time.Second

var (
	// ErrInvalidViewerSession means that the viewer session is not valid. The error contains the reason. Respond with
	// HTTP 401.
	ErrInvalidViewerSession = errors.New("invalid viewer session")
	// ErrKeysUnavailable means that the verifier cannot read the keys, and so cannot verify the session. Respond with HTTP
	// 503.
	ErrKeysUnavailable = errors.New("the keys of viewer sessions are not available")
)

// ViewerSession contains the claims of a verified viewer session.
type ViewerSession struct {
	// ID is the unique id of the session: the claim jti.
	ID string
	// UserGroupID is the id of the user group: the claim sub.
	UserGroupID string
	// TeamID is the internal id of the user group: the claim tid.
	TeamID int64
	// ViewerID is the id of the viewer within the group: the claim vid. Empty if the session has no viewer id.
	ViewerID string
	// Origin is the origin of the page. Empty if the session has no origin.
	Origin string
	// Properties contains the group properties that the field PropertyKeys of CreateViewerSession selected. A later
	// change of the group does not change these values.
	Properties map[string]any
	// Claims contains the additional claims that the back end has chosen: the content of the claim ext.
	Claims map[string]any
	// CreateTime is the creation time of the session: the claim iat.
	CreateTime time.Time
	// ExpireTime is the expiry time of the session: the claim exp.
	ExpireTime time.Time
}

// Verifier verifies viewer sessions of one issuer with the published keys of the issuer. If the keys are cached, a
// verification needs no request to the service. A Verifier is safe for concurrent use. Use one Verifier per process,
// because each Verifier has its own cache of keys.
//
// A Verifier accepts a revoked session until the session expires. ResolveViewer rejects a revoked session immediately.
type Verifier struct {
	issuer   string
	audience string
	keys     *publishedKeys
	now      func() time.Time
}

// NewVerifier creates a verifier.
//
// issuer is the issuer of your sessions, such as https://groups.example.com/e/acme/Customer. Never take the issuer from
// a session. audience is the audience that you pass to CreateViewerSession.
func NewVerifier(issuer, audience string) *Verifier {
	keys := newPublishedKeys(issuer + "/.well-known/jwks.json")
	return &Verifier{issuer: issuer, audience: audience, keys: keys, now: time.Now}
}

// VerifyViewerSession verifies a viewer session. Errors wrap [ErrInvalidViewerSession] or [ErrKeysUnavailable].
func (v *Verifier) VerifyViewerSession(ctx context.Context, session string) (*ViewerSession, error) {
	verified, err := v.verify(ctx, session)
	if err != nil && !errors.Is(err, ErrKeysUnavailable) {
		return nil, fmt.Errorf("%w: %w", ErrInvalidViewerSession, err)
	}
	return verified, err
}

func (v *Verifier) verify(ctx context.Context, session string) (*ViewerSession, error) {
	if v.issuer == "" || v.audience == "" {
		return nil, errors.New("the verifier has no issuer or no audience: set both, because otherwise the verifier would accept sessions of other environments")
	}
	read, err := readSession(session)
	if err != nil {
		return nil, err
	}
	// Check the issuer before the keys are read, so that a session of another issuer causes no request.
	if issuer, ok := read.claims["iss"].(string); ok && issuer != v.issuer {
		return nil, fmt.Errorf("its issuer is %.300q, not %q", issuer, v.issuer)
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
		return nil, fmt.Errorf("its audience is %.300q, not %q", audience, v.audience)
	case !now.Before(verified.ExpireTime.Add(leeway)):
		return nil, errors.New("it has expired")
	case now.Before(verified.CreateTime.Add(-leeway)):
		return nil, errors.New("its creation time is in the future: check the clocks")
	}
	return verified, nil
}
