package usergroups

import (
	"context"
	"errors"
	"strings"
)

// TokenSource returns the API token.
type TokenSource interface {
	// Token returns the current API token. The client calls Token before each attempt of a call. If the token has
	// changed, the next attempt uses the new token.
	Token(ctx context.Context) (string, error)
}

// TokenFunc is a function that returns the API token, such as a function that reads a file.
type TokenFunc func(ctx context.Context) (string, error)

func (f TokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }

// StaticToken returns a source with a fixed API token.
func StaticToken(token string) TokenSource { return staticToken(token) }

type staticToken string

func (t staticToken) Token(context.Context) (string, error) { return string(t), nil }

// authorization returns the Authorization header for a token. An error never contains the token.
func authorization(token string) (string, error) {
	// Files with a token often end with a line break.
	token = strings.TrimSpace(token)
	if token == "" {
		return "", errors.New("the API token is empty")
	}
	for _, char := range token {
		if char <= ' ' || char > '~' {
			return "", errors.New("the API token has invalid characters; copy it again, without other text")
		}
	}
	return "Token " + token, nil
}
