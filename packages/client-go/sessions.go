package usergroups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

const (
	// The longest session that the service makes.
	maxSessionLength = 8192
	// By how much clocks may differ.
	leeway = 5 * time.Second
)

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
	parser   *jwt.Parser
}

// NewVerifier makes a verifier.
//
// issuer is who makes your sessions, such as https://groups.example.com/e/acme/Customer: never take it from a session.
// audience is whom they are made for, the audience of CreateViewerSession.
func NewVerifier(issuer, audience string) *Verifier {
	return &Verifier{
		issuer:   issuer,
		audience: audience,
		keys:     newPublishedKeys(issuer + "/.well-known/jwks.json"),
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{"ES256"}),
			jwt.WithIssuer(issuer),
			jwt.WithAudience(audience),
			jwt.WithExpirationRequired(),
			jwt.WithIssuedAt(),
			jwt.WithLeeway(leeway),
		),
	}
}

type sessionClaims struct {
	jwt.RegisteredClaims
	TeamID     *int64         `json:"tid"`
	ViewerID   string         `json:"vid"`
	Origin     string         `json:"origin"`
	Properties map[string]any `json:"properties"`
	Ext        map[string]any `json:"ext"`
}

// Validate implements [jwt.ClaimsValidator]: sessions have these besides what the parser asks for.
func (c *sessionClaims) Validate() error {
	if c.Subject == "" || c.ID == "" || c.IssuedAt == nil || c.TeamID == nil {
		return errors.New("sub, jti, iat or tid is missing")
	}
	return nil
}

// VerifyViewerSession verifies a viewer session. It fails with [ErrInvalidViewerSession] or [ErrKeysUnavailable].
func (v *Verifier) VerifyViewerSession(ctx context.Context, session string) (*ViewerSession, error) {
	if len(session) > maxSessionLength {
		return nil, fmt.Errorf("%w: it is longer than any", ErrInvalidViewerSession)
	}
	claims := &sessionClaims{}
	_, err := v.parser.ParseWithClaims(session, claims, func(token *jwt.Token) (any, error) {
		kid, ok := token.Header["kid"].(string)
		if token.Header["typ"] != "viewer+jwt" || !ok {
			return nil, errors.New("it is another kind of JWT")
		}
		if claims.Issuer != "" && claims.Issuer != v.issuer {
			return nil, fmt.Errorf("it is of the issuer %.300q, not %q", claims.Issuer, v.issuer)
		}
		return v.keys.key(ctx, kid)
	})
	if errors.Is(err, ErrKeysUnavailable) {
		return nil, err
	}
	if errors.Is(err, jwt.ErrTokenInvalidAudience) {
		return nil, fmt.Errorf("%w: it was made for the audience %q, not %q", ErrInvalidViewerSession, claims.Audience, v.audience)
	}
	if errors.Is(err, jwt.ErrTokenUsedBeforeIssued) {
		return nil, fmt.Errorf("%w: it is from the future: check the clocks", ErrInvalidViewerSession)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidViewerSession, err)
	}
	return &ViewerSession{
		ID:          claims.ID,
		UserGroupID: claims.Subject,
		TeamID:      *claims.TeamID,
		ViewerID:    claims.ViewerID,
		Origin:      claims.Origin,
		Properties:  claims.Properties,
		Claims:      claims.Ext,
		CreateTime:  claims.IssuedAt.Time,
		ExpireTime:  claims.ExpiresAt.Time,
	}, nil
}
