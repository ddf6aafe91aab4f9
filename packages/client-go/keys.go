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
	// Time for which keys are cached.
	keysLife = 10 * time.Minute
	// Minimum time between the end of a read and the next read. A key that is not cached causes a read.
	keysPause = time.Second
	// Time limit of a read, and maximum size of the response in bytes.
	keysTimeout  = 5 * time.Second
	maxKeysBytes = 1 << 20
)

var errUnknownKey = errors.New("its issuer does not publish the key that signed the session")

// publishedKeys reads and caches the keys of an issuer on demand.
type publishedKeys struct {
	url    string
	client *http.Client
	now    func() time.Time

	// The mutex protects the fields below. The mutex is not locked while a request reads the keys.
	mutex sync.Mutex
	keys  map[string]*ecdsa.PublicKey
	// readAt is the time of the last successful read. triedAt and failure are the time and the error of the last attempt.
	readAt, triedAt time.Time
	failure         error
	// At the end of the read in flight, update closes this channel. A call whose key is not cached waits for the close.
	// The channel is nil if no read is in flight.
	reading chan struct{}
}

func newPublishedKeys(url string) *publishedKeys {
	client := &http.Client{Timeout: keysTimeout, CheckRedirect: followNone}
	return &publishedKeys{url: url, client: client, now: time.Now}
}

// key returns the key with the id kid. If the key is not cached, key waits until a read of the keys has ended, or until
// the context is done. If the key is not cached and the previous read ended less than keysPause ago, key fails without
// a read.
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

// known returns the key if the key is cached. If the key is not cached, known returns the channel of the read in
// flight, or starts a read and returns its channel. If no read is in flight and the last read ended less than keysPause
// ago, known starts no read, and returns an error.
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
		// The read does not use the context of a caller, because several callers wait for this read.
		go p.update(p.reading)
	}
	return nil, p.reading, nil
}

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
		p.failure = fmt.Errorf("%w: check the issuer: %w", ErrKeysUnavailable, err)
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
		return nil, fmt.Errorf("%s responds with %s", p.url, answer.Status)
	}
	var published struct{ Keys []jwk }
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxKeysBytes)).Decode(&published); err != nil {
		return nil, fmt.Errorf("%s returns no keys: %w", p.url, err)
	}
	keys := map[string]*ecdsa.PublicKey{}
	for _, each := range published.Keys {
		if key, err := each.publicKey(); err == nil && each.Kid != "" {
			keys[each.Kid] = key
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s returns no keys", p.url)
	}
	return keys, nil
}

// jwk is a JSON Web Key (RFC 7517).
type jwk struct{ Kid, Kty, Crv, X, Y string }

func (k jwk) publicKey() (*ecdsa.PublicKey, error) {
	if k.Kty != "EC" || k.Crv != "P-256" {
		return nil, errors.New("not an ES256 key")
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
	// ECDH fails for a point that is not on the curve.
	if _, err := key.ECDH(); err != nil {
		return nil, err
	}
	return key, nil
}
