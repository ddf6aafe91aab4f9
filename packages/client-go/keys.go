package usergroups

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// How long keys are kept: what the service's Cache-Control allows.
	keysLife = 10 * time.Minute
	// How long to wait before they are read again for a key that is not among them.
	keysPause = 30 * time.Second
	// How long to wait before they are read again when they could not be, so that callers do not wait behind each other.
	failurePause = time.Second
	// How long reading them may take, and how much is read.
	keysTimeout  = 5 * time.Second
	maxKeysBytes = 1 << 20
)

var errUnknownKey = errors.New("it is signed by a key that its issuer does not publish")

// publishedKeys are the keys of an issuer, read when they are needed.
type publishedKeys struct {
	url    string
	client *http.Client
	now    func() time.Time

	// Held by whoever reads the keys, so that only those wait whose key is not known.
	reading  sync.Mutex
	failure  error
	failedAt time.Time

	mutex  sync.Mutex
	keys   map[string]*ecdsa.PublicKey
	readAt time.Time
}

func newPublishedKeys(url string) *publishedKeys {
	client := &http.Client{Timeout: keysTimeout, CheckRedirect: followNone}
	return &publishedKeys{url: url, client: client, now: time.Now}
}

// key is the key with an id. Who asks for one that is not known waits while the keys are read, as long as its context lasts.
func (p *publishedKeys) key(ctx context.Context, kid string) (*ecdsa.PublicKey, error) {
	if found, _ := p.known(kid); found != nil {
		return found, nil
	}
	var found *ecdsa.PublicKey
	var err error
	done := make(chan struct{})
	// What one caller gives up is read for the others all the same.
	go func(ctx context.Context) {
		defer close(done)
		found, err = p.unknown(ctx, kid)
	}(context.WithoutCancel(ctx))
	select {
	case <-done:
		return found, err
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, context.Cause(ctx))
	}
}

// unknown is a key that was not known, once the keys are read.
func (p *publishedKeys) unknown(ctx context.Context, kid string) (*ecdsa.PublicKey, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	// Another may have read them meanwhile.
	found, age := p.known(kid)
	if found != nil {
		return found, nil
	}
	if age < keysPause {
		return nil, errUnknownKey
	}
	if p.failure != nil && p.now().Sub(p.failedAt) < failurePause {
		return nil, p.failure
	}
	keys, err := p.read(ctx)
	if err != nil {
		p.failure = fmt.Errorf("%w; is the issuer right? %w", ErrKeysUnavailable, err)
		p.failedAt = p.now()
		return nil, p.failure
	}
	p.failure = nil
	p.mutex.Lock()
	p.keys, p.readAt = keys, p.now()
	p.mutex.Unlock()
	if found = keys[kid]; found == nil {
		return nil, errUnknownKey
	}
	return found, nil
}

// known is a key that was read and may still be used, or nil, and how long ago keys were read.
func (p *publishedKeys) known(kid string) (*ecdsa.PublicKey, time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	age := p.now().Sub(p.readAt)
	if age >= keysLife {
		return nil, age
	}
	return p.keys[kid], age
}

func (p *publishedKeys) read(ctx context.Context) (map[string]*ecdsa.PublicKey, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", p.url, answer.Status)
	}
	var published struct{ Keys []jwk }
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxKeysBytes)).Decode(&published); err != nil {
		return nil, fmt.Errorf("%s answers no keys: %w", p.url, err)
	}
	keys := map[string]*ecdsa.PublicKey{}
	for _, each := range published.Keys {
		// Keys of other kinds are for others.
		if key, err := each.publicKey(); err == nil && each.Kid != "" {
			keys[each.Kid] = key
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s answers no keys", p.url)
	}
	return keys, nil
}

// jwk is a key as RFC 7517 writes it.
type jwk struct{ Kid, Kty, Crv, X, Y string }

func (k jwk) publicKey() (*ecdsa.PublicKey, error) {
	if k.Kty != "EC" || k.Crv != "P-256" {
		return nil, errors.New("not a key of ES256")
	}
	x, err := base64.RawURLEncoding.DecodeString(k.X)
	if err != nil {
		return nil, err
	}
	y, err := base64.RawURLEncoding.DecodeString(k.Y)
	if err != nil {
		return nil, err
	}
	// Checks that the point is on the curve.
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, x...), y...))
}
