package usergroups

import (
	"context"
	"errors"
	"strings"
)

// TokenSource gives the API token.
type TokenSource interface {
	// Token is called before each try of a call, so that a token that was changed is taken up.
	Token(ctx context.Context) (string, error)
}

// TokenFunc is a function that gives the API token, such as one that reads it from a file.
type TokenFunc func(ctx context.Context) (string, error)

// Token calls the function.
func (f TokenFunc) Token(ctx context.Context) (string, error) { return f(ctx) }

// StaticToken gives one API token.
func StaticToken(token string) TokenSource { return staticToken(token) }

type staticToken string

func (t staticToken) Token(context.Context) (string, error) { return string(t), nil }

// authorization is the header that presents a token. Its errors never show the token.
func authorization(token string) (string, error) {
	// A file that holds a token often ends with a line break.
	token = strings.TrimSpace(token)
	if token == "" {
		return "", errors.New("the API token is empty")
	}
	for _, char := range token {
		if char <= ' ' || char > '~' {
			return "", errors.New("the API token has characters that none has; was it copied whole, and alone?")
		}
	}
	return "Token " + token, nil
}
