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
	"math/big"
	"net/http"
	"sync"
	"time"
)

const (
	// How long keys are kept: what the service's Cache-Control allows.
	keysLife = 10 * time.Minute
	// The shortest time between two reads, for a key that is not among them, or because they could not be read.
	keysPause = time.Second
	// How long reading them may take, to the end of the answer, and how much is read.
	keysTimeout  = 5 * time.Second
	maxKeysBytes = 1 << 20
)

var errUnknownKey = errors.New("it is signed by a key that its issuer does not publish")

// publishedKeys are the keys of an issuer, read when they are needed.
type publishedKeys struct {
	url    string
	client *http.Client
	now    func() time.Time

	// Not held while keys are read.
	mutex sync.Mutex
	keys  map[string]*ecdsa.PublicKey
	// When they were read; when reading them was last tried, and why it failed.
	readAt, triedAt time.Time
	failure         error
	// Closed once the keys are read, for which all wait whose key is not known. Nil: nobody reads them.
	reading chan struct{}
}

func newPublishedKeys(url string) *publishedKeys {
	client := &http.Client{Timeout: keysTimeout, CheckRedirect: followNone}
	return &publishedKeys{url: url, client: client, now: time.Now}
}

// key is the key with an id. Who asks for one that is not known waits while the keys are read, as long as its context lasts.
func (p *publishedKeys) key(ctx context.Context, kid string) (*ecdsa.PublicKey, error) {
	found, reading, err := p.known(kid)
	if reading == nil {
		return found, err
	}
	select {
	case <-reading:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrKeysUnavailable, context.Cause(ctx))
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.current(kid)
}

// known is a key, or what to wait for until it may be known.
func (p *publishedKeys) known(kid string) (*ecdsa.PublicKey, <-chan struct{}, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := p.now()
	if now.Sub(p.readAt) >= keysLife {
		p.keys = nil
	}
	found, err := p.current(kid)
	if found != nil || (p.reading == nil && now.Sub(p.triedAt) < keysPause) {
		return found, nil, err
	}
	if p.reading == nil {
		p.reading = make(chan struct{})
		// What one caller gives up is read for the others all the same.
		go p.update(p.reading)
	}
	return nil, p.reading, nil
}

// current is the key by what was read last.
func (p *publishedKeys) current(kid string) (*ecdsa.PublicKey, error) {
	if found := p.keys[kid]; found != nil {
		return found, nil
	}
	if p.failure != nil {
		return nil, p.failure
	}
	return nil, errUnknownKey
}

func (p *publishedKeys) update(done chan<- struct{}) {
	keys, err := p.read()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.triedAt, p.failure, p.reading = p.now(), nil, nil
	if err != nil {
		p.failure = fmt.Errorf("%w; is the issuer right? %w", ErrKeysUnavailable, err)
	} else {
		p.keys, p.readAt = keys, p.triedAt
	}
	close(done)
}

func (p *publishedKeys) read() (map[string]*ecdsa.PublicKey, error) {
	answer, err := p.client.Get(p.url)
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
	key := &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(x), Y: new(big.Int).SetBytes(y)}
	// Fails for a point that is not on the curve.
	if _, err := key.ECDH(); err != nil {
		return nil, err
	}
	return key, nil
}
