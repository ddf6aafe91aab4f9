package usergroups

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func published(kid string, key *ecdsa.PrivateKey) http.HandlerFunc {
	point, _ := key.PublicKey.Bytes()
	x, y := base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:])
	jwk := map[string]string{"kid": kid, "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "x": x, "y": y}
	return func(response http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(response).Encode(map[string]any{"keys": []any{map[string]string{"kty": "RSA", "kid": "rsa"}, jwk}})
	}
}

// signed makes a session; with a value of nil a claim or header is left out.
func signed(t *testing.T, issuer string, method jwt.SigningMethod, key any, changed map[string]any) string {
	now := time.Now().Unix()
	claims := jwt.MapClaims{
		"iss": issuer, "aud": "dashboards", "sub": "acme", "tid": 7, "jti": "j1", "iat": now, "exp": now + 600,
	}
	token := jwt.NewWithClaims(method, claims)
	token.Header["typ"], token.Header["kid"] = "viewer+jwt", "k1"
	for name, value := range changed {
		into := map[string]any(claims)
		if name == "typ" || name == "kid" {
			into = token.Header
		}
		into[name] = value
		if value == nil {
			delete(into, name)
		}
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhichSessionsAreTaken(t *testing.T) {
	key, other := newKey(t), newKey(t)
	server, _ := answering(t, published("k1", key))
	verifier := NewVerifier(server.URL, "dashboards")
	session := func(changed map[string]any) string {
		return signed(t, server.URL, jwt.SigningMethodES256, key, changed)
	}
	good := session(map[string]any{
		"vid": "bob", "origin": "https://a.example", "properties": map[string]any{"plan": "gold"}, "ext": map[string]any{"theme": "dark"},
	})
	found, err := verifier.VerifyViewerSession(t.Context(), good)
	if err != nil {
		t.Fatal(err)
	}
	says := fmt.Sprintln(found.UserGroupID, found.TeamID, found.ViewerID, found.ID, found.Origin, found.Properties, found.Claims)
	if says != "acme 7 bob j1 https://a.example map[plan:gold] map[theme:dark]\n" {
		t.Error(says)
	}
	if found.ExpireTime.Sub(found.CreateTime) != 10*time.Minute {
		t.Error(found.CreateTime, found.ExpireTime)
	}

	// The key that everybody knows, as the secret of a signature that is made with one.
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})

	now := time.Now().Unix()
	parts := strings.Split(good, ".")
	for seconds, says := range map[time.Duration]string{-6: "from the future", -5: "", 604: "", 605: "expired"} {
		seen := found.CreateTime.Add(seconds * time.Second)
		jwt.WithTimeFunc(func() time.Time { return seen })(verifier.parser)
		_, err := verifier.VerifyViewerSession(t.Context(), good)
		if (err == nil) != (says == "") || (err != nil && !strings.Contains(err.Error(), says)) {
			t.Errorf("clocks may differ by five seconds; %d seconds after it was made: %v", seconds, err)
		}
	}
	jwt.WithTimeFunc(time.Now)(verifier.parser)
	refused := map[string]string{
		signed(t, server.URL, jwt.SigningMethodES256, other, nil):                           "signature is invalid",
		parts[0] + "." + parts[1] + "." + strings.Repeat("A", 86):                           "signature is invalid",
		session(map[string]any{"iss": "https://elsewhere.example"}):                         `of the issuer "https://elsewhere.example", not "` + server.URL,
		session(map[string]any{"aud": "reports"}):                                           `the audience ["reports"], not "dashboards"`,
		session(map[string]any{"exp": now - 10}):                                            "expired",
		session(map[string]any{"iat": now + 60}):                                            "from the future: check the clocks",
		session(map[string]any{"typ": "JWT"}):                                               "another kind of JWT",
		session(map[string]any{"kid": nil}):                                                 "another kind of JWT",
		session(map[string]any{"kid": "k2"}):                                                "does not publish",
		session(map[string]any{"kid": "rsa"}):                                               "does not publish",
		signed(t, server.URL, jwt.SigningMethodHS256, public, nil):                          "signing method",
		signed(t, server.URL, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, nil): "signing method",
		"":                        "",
		"a.b.c":                   "",
		"é.é.é":                   "",
		strings.Repeat("x", 8193): "longer than any",
	}
	for _, name := range []string{"exp", "iat", "iss", "aud", "sub", "jti", "tid"} {
		refused[session(map[string]any{name: nil})] = "missing"
	}
	for text, says := range refused {
		_, err := verifier.VerifyViewerSession(t.Context(), text)
		if !errors.Is(err, ErrInvalidViewerSession) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q was to be in: %v", says, err)
		}
	}
}

func TestKeysAreReadWhenTheyAreNeeded(t *testing.T) {
	key, next := newKey(t), newKey(t)
	away := func(response http.ResponseWriter, _ *http.Request) { http.Error(response, "away", 503) }
	server, requests := answering(t,
		published("k1", key), published("k2", next), away, lost, func(http.ResponseWriter, *http.Request) {}, published("k1", key))
	verifier := NewVerifier(server.URL, "dashboards")
	now := time.Now()
	verifier.keys.now = func() time.Time { return now }
	old := signed(t, server.URL, jwt.SigningMethodES256, key, nil)
	fresh := signed(t, server.URL, jwt.SigningMethodES256, next, map[string]any{"kid": "k2"})
	expect := func(session string, expected error, reads int) {
		t.Helper()
		_, err := verifier.VerifyViewerSession(t.Context(), session)
		if !errors.Is(err, expected) || len(requests()) != reads {
			t.Errorf("after %d reads: %v", len(requests()), err)
		}
	}
	expect(old, nil, 1)
	for range 20 {
		expect(fresh, ErrInvalidViewerSession, 1)
	}
	now = now.Add(keysPause)
	expect(fresh, nil, 2)
	expect(old, ErrInvalidViewerSession, 2)
	now = now.Add(keysLife)
	for reads := 3; reads <= 5; reads++ {
		expect(fresh, ErrKeysUnavailable, reads)
		expect(fresh, ErrKeysUnavailable, reads)
		now = now.Add(failurePause)
	}
	expect(old, nil, 6)
}

func TestWhoseKeyIsKnownWaitsForNobody(t *testing.T) {
	key := newKey(t)
	asked, answered := make(chan struct{}), make(chan struct{})
	slow := func(response http.ResponseWriter, request *http.Request) {
		close(asked)
		<-answered
		published("k2", key)(response, request)
	}
	server, _ := answering(t, published("k1", key), slow)
	verifier := NewVerifier(server.URL, "dashboards")
	known := signed(t, server.URL, jwt.SigningMethodES256, key, nil)
	unknown := signed(t, server.URL, jwt.SigningMethodES256, key, map[string]any{"kid": "k2"})
	if _, err := verifier.VerifyViewerSession(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	verifier.keys.readAt = verifier.keys.readAt.Add(-keysPause)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := verifier.VerifyViewerSession(soon, unknown); !errors.Is(err, ErrKeysUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error("it is to wait as long as its context lasts:", err)
	}
	ended := make(chan error, 2)
	verify := func(session string) {
		_, err := verifier.VerifyViewerSession(t.Context(), session)
		ended <- err
	}
	go verify(unknown)
	<-asked
	go verify(known)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(keysTimeout / 2):
		t.Error("it waits for the keys, which are read for another session")
	}
	close(answered)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
