package usergroups

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// Maximum lengths of a session and of its header, in characters.
	maxSessionLength = 8192
	maxHeaderLength  = 256
	// Maximum lifetime of a session, in seconds.
	maxLife = 3600
	// Maximum nesting depth of objects and lists in a claim.
	maxClaimDepth = 32
	// Maximum absolute value of the integers in claims. A float64 represents all of these integers exactly.
	maxWhole = 1<<53 - 1
)

var (
	errNoSession   = errors.New("it is not a viewer session")
	errOtherKind   = errors.New("it is another kind of JWT")
	errOtherClaims = errors.New("its claims are not those of a viewer session")
	errNoJSON      = errors.New("not an unambiguous JSON object")
)

type unverifiedSession struct {
	kid       string
	claims    map[string]any
	signed    string
	signature []byte
}

// readSession parses a session. The header must contain exactly the key id, the type and the algorithm (RFC 8725).
func readSession(session string) (*unverifiedSession, error) {
	if len(session) > maxSessionLength {
		return nil, fmt.Errorf("it has more than %d characters", maxSessionLength)
	}
	parts := strings.Split(session, ".")
	if len(parts) != 3 || len(parts[0]) > maxHeaderLength {
		return nil, errNoSession
	}
	signature, err := decode(parts[2])
	if err != nil || len(signature) != 64 {
		return nil, errNoSession
	}
	header, err := readObject(parts[0])
	if err != nil {
		return nil, errNoSession
	}
	kid, _ := header["kid"].(string)
	if len(header) != 3 || header["alg"] != "ES256" || header["typ"] != "viewer+jwt" || kid == "" {
		return nil, errOtherKind
	}
	claims, err := readObject(parts[1])
	if err != nil {
		return nil, errNoSession
	}
	return &unverifiedSession{kid, claims, parts[0] + "." + parts[1], signature}, nil
}

// viewerSessionOf converts claims to a session and its audience. viewerSessionOf checks the types of all claims even
// after the signature was verified, because an attacker with a stolen key can sign any claims.
func viewerSessionOf(claims map[string]any) (*ViewerSession, string, error) {
	ok := true
	text := func(name string, required bool) string {
		value, is := claims[name].(string)
		_, has := claims[name]
		ok = ok && (is || (!has && !required))
		return value
	}
	object := func(name string) map[string]any {
		value, is := claims[name].(map[string]any)
		_, has := claims[name]
		ok = ok && (is || !has)
		return value
	}
	whole := func(name string) int64 {
		value, is := claims[name].(float64)
		ok = ok && is && value == math.Trunc(value) && math.Abs(value) <= maxWhole
		return int64(value)
	}
	create, expire := whole("iat"), whole("exp")
	audience := text("aud", true)
	verified := &ViewerSession{
		ID:          text("jti", true),
		UserGroupID: text("sub", true),
		TeamID:      whole("tid"),
		ViewerID:    text("vid", false),
		Origin:      text("origin", false),
		Properties:  object("properties"),
		Claims:      object("ext"),
		CreateTime:  time.Unix(create, 0),
		ExpireTime:  time.Unix(expire, 0),
	}
	text("iss", true)
	whole("gen")
	if _, has := claims["nbf"]; !ok || has || expire-create > maxLife {
		return nil, "", errOtherClaims
	}
	return verified, audience, nil
}

// decode decodes base64url. decode fails if the text contains padding or line breaks, or if the unused bits of the last
// character are not zero.
func decode(part string) ([]byte, error) {
	decoded, err := base64.RawURLEncoding.DecodeString(part)
	if err == nil && base64.RawURLEncoding.EncodeToString(decoded) != part {
		err = errNoJSON
	}
	return decoded, err
}

var (
	// wholeEscapes matches an escaped backslash or an escaped surrogate pair. readObject removes these escapes first, so
	// that halfEscape matches only a surrogate that is not part of a pair.
	wholeEscapes = regexp.MustCompile(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
	halfEscape   = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
	quoted       = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
)

// readObject parses a JSON object. readObject rejects duplicate names and invalid UTF-8, which [encoding/json] accepts.
func readObject(part string) (map[string]any, error) {
	text, err := decode(part)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) || halfEscape.Match(wholeEscapes.ReplaceAll(text, []byte(" "))) {
		return nil, errNoJSON
	}
	// Unmarshal also fails for a number that is too large for a float64.
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, err
	}
	// Each member has one colon outside of strings. If a name occurs twice, the parsed object has fewer members than the
	// text has colons.
	members, ok := membersIn(object, 0)
	if !ok || object == nil || members != bytes.Count(quoted.ReplaceAll(text, nil), []byte(":")) {
		return nil, errNoJSON
	}
	return object, nil
}

// membersIn counts the members of all objects in a parsed value. ok is false if the value is nested too deeply.
func membersIn(value any, depth int) (count int, ok bool) {
	var parts []any
	switch value := value.(type) {
	case map[string]any:
		count, parts = len(value), slices.Collect(maps.Values(value))
	case []any:
		parts = value
	default:
		return 0, true
	}
	ok = depth <= maxClaimDepth
	for _, part := range parts {
		more, fits := membersIn(part, depth+1)
		count, ok = count+more, ok && fits
	}
	return count, ok
}
