package usergroups

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func published(kid string, key *ecdsa.PrivateKey) http.HandlerFunc {
	public, _ := key.PublicKey.ECDH()
	point := public.Bytes()
	x, y := base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:])
	jwk := map[string]string{"kid": kid, "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "x": x, "y": y}
	return func(response http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(response).Encode(map[string]any{"keys": []any{map[string]string{"kty": "RSA", "kid": "rsa"}, jwk}})
	}
}

func signed(t *testing.T, issuer, kid string, key *ecdsa.PrivateKey) string {
	now := time.Now().Unix()
	encode := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := encode(map[string]any{"alg": "ES256", "typ": "viewer+jwt", "kid": kid}) + "." + encode(map[string]any{
		"iss": issuer, "aud": "dashboards", "sub": "acme", "tid": 7, "gen": 0, "jti": "j1", "iat": now, "exp": now + 600,
		"vid": "bob", "origin": "https://a.example", "properties": map[string]any{"plan": "gold"}, "ext": map[string]any{"theme": "dark"},
	})
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestReturnsTheClaimsOfAValidSession(t *testing.T) {
	key := newKey(t)
	server, _ := answering(t, published("k1", key))
	verifier := NewVerifier(server.URL, "dashboards")
	good := signed(t, server.URL, "k1", key)
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
	for seconds, says := range map[time.Duration]string{-6: "in the future", -5: "", 604: "", 605: "expired"} {
		verifier.now = func() time.Time { return found.CreateTime.Add(seconds * time.Second) }
		_, err := verifier.VerifyViewerSession(t.Context(), good)
		if (err == nil) != (says == "") || (err != nil && !strings.Contains(err.Error(), says)) {
			t.Errorf("%d seconds after the creation: %v", seconds, err)
		}
	}
}

func TestAcceptsOrRejectsEachCaseOfViewerSessionsJSON(t *testing.T) {
	file, err := os.ReadFile("../../test/fixtures/viewer-sessions.json")
	if err != nil {
		t.Fatal(err)
	}
	var suite struct {
		Now              int64
		Issuer, Audience string
		Keys             json.RawMessage
		Cases            []struct {
			Name, Session, Refused string
			At                     int64
		}
	}
	if err := json.Unmarshal(file, &suite); err != nil {
		t.Fatal(err)
	}
	server, _ := answering(t, func(response http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(response, `{"keys":%s}`, suite.Keys)
	})
	says := map[string]string{
		"wrong-issuer": "issuer is", "wrong-audience": "audience is", "unknown-key": "does not publish",
		"wrong-signature": "signature", "expired": "expired", "too-early": "in the future",
	}
	for _, each := range suite.Cases {
		t.Run(each.Name, func(t *testing.T) {
			verifier := NewVerifier(suite.Issuer, suite.Audience)
			verifier.keys.url = server.URL
			verifier.now = func() time.Time { return time.Unix(cmp.Or(each.At, suite.Now), 0) }
			_, err := verifier.VerifyViewerSession(t.Context(), each.Session)
			if (each.Refused == "") != (err == nil) || (err != nil && !errors.Is(err, ErrInvalidViewerSession)) {
				t.Fatalf("want %q, got %v", each.Refused, err)
			}
			if err != nil && !strings.Contains(err.Error(), says[each.Refused]) {
				t.Errorf("want %q in %v", says[each.Refused], err)
			}
		})
	}
	if len(suite.Cases) < 200 {
		t.Error("too few cases:", len(suite.Cases))
	}
}

func TestReadsKeysOnDemand(t *testing.T) {
	key, next := newKey(t), newKey(t)
	unavailable := func(response http.ResponseWriter, _ *http.Request) { http.Error(response, "unavailable", 503) }
	server, requests := answering(t,
		published("k1", key), published("k2", next), unavailable, lost, func(http.ResponseWriter, *http.Request) {}, published("k1", key))
	verifier := NewVerifier(server.URL, "dashboards")
	now := time.Now()
	verifier.keys.now = func() time.Time { return now }
	old := signed(t, server.URL, "k1", key)
	fresh := signed(t, server.URL, "k2", next)
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
		now = now.Add(keysPause)
	}
	expect(old, nil, 6)
}

func TestDoesNotWaitForAReadIfTheKeyIsCached(t *testing.T) {
	key := newKey(t)
	asked, answered := make(chan struct{}), make(chan struct{})
	slow := func(response http.ResponseWriter, request *http.Request) {
		close(asked)
		<-answered
		published("k2", key)(response, request)
	}
	server, _ := answering(t, published("k1", key), slow)
	verifier := NewVerifier(server.URL, "dashboards")
	known := signed(t, server.URL, "k1", key)
	unknown := signed(t, server.URL, "k2", key)
	if _, err := verifier.VerifyViewerSession(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	verifier.keys.triedAt = verifier.keys.triedAt.Add(-keysPause)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := verifier.VerifyViewerSession(soon, unknown); !errors.Is(err, ErrKeysUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error("the call must wait until its context is done:", err)
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
		t.Error("the call waits for the keys of another session")
	}
	close(answered)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWaitsForASlowIssuerUntilTheTimeLimit(t *testing.T) {
	drip := func(response http.ResponseWriter, request *http.Request) {
		for request.Context().Err() == nil {
			fmt.Fprint(response, " ")
			response.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
	}
	server, _ := answering(t, drip)
	verifier := NewVerifier(server.URL, "dashboards")
	verifier.keys.client.Timeout = 100 * time.Millisecond
	_, err := verifier.VerifyViewerSession(t.Context(), signed(t, server.URL, "k1", newKey(t)))
	if !errors.Is(err, ErrKeysUnavailable) {
		t.Error(err)
	}
}
