// Verifies viewer sessions by golang-jwt, with what their issuer publishes and nothing else.
//
// Reads a question a line, JSON with session, issuer, audience, and ahead: by how many seconds the clock of this verifier is
// ahead. Answers a line each: the claims, or the library's errors.
package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// How far the clocks of machines may differ.
const leeway = time.Minute

type question struct {
	Session  string
	Issuer   string
	Audience string
	Ahead    int
}

type jwk struct{ Kid, Kty, Crv, Alg, X, Y string }

var errUnknownKey = errors.New("the issuer publishes no such key")

func main() {
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		claims, err := verified(asked)
		if err != nil {
			answers.Encode(map[string]any{"error": err.Error()})
			continue
		}
		answers.Encode(map[string]any{"claims": claims})
	}
}

func verified(asked question) (jwt.MapClaims, error) {
	var configuration struct {
		Issuer  string
		JwksURI string `json:"jwks_uri"`
	}
	if err := fetch(asked.Issuer+"/.well-known/openid-configuration", &configuration); err != nil {
		return nil, err
	}
	keyOf := func(token *jwt.Token) (any, error) {
		var published struct{ Keys []jwk }
		if err := fetch(configuration.JwksURI, &published); err != nil {
			return nil, err
		}
		for _, key := range published.Keys {
			if key.Kid == token.Header["kid"] && key.Kty == "EC" && key.Crv == "P-256" {
				return publicKey(key)
			}
		}
		return nil, errUnknownKey
	}
	claims := jwt.MapClaims{}
	token, err := jwt.ParseWithClaims(asked.Session, claims, keyOf,
		jwt.WithValidMethods([]string{"ES256"}),
		jwt.WithIssuer(configuration.Issuer),
		jwt.WithAudience(asked.Audience),
		jwt.WithExpirationRequired(),
		jwt.WithIssuedAt(),
		jwt.WithLeeway(leeway),
		jwt.WithTimeFunc(func() time.Time { return time.Now().Add(time.Duration(asked.Ahead) * time.Second) }))
	if err != nil {
		return nil, err
	}
	if token.Header["typ"] != "viewer+jwt" {
		return nil, errors.New("another kind of JWT")
	}
	return claims, nil
}

func publicKey(key jwk) (*ecdsa.PublicKey, error) {
	x, err := base64.RawURLEncoding.DecodeString(key.X)
	if err != nil {
		return nil, err
	}
	y, err := base64.RawURLEncoding.DecodeString(key.Y)
	if err != nil {
		return nil, err
	}
	return &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(x), Y: new(big.Int).SetBytes(y)}, nil
}

func fetch(url string, into any) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}
