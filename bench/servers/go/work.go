package main

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

var errRefused = errors.New("the API token is unknown, or the group does not exist")

// Group is a user group from Redis, with its decrypted token.
type Group struct {
	TeamID                                  int64
	Token, Name, ProvidedID, Etag           string
	Mapping                                 map[string]string
	Properties                              map[string]any
	CreateTime, UpdateTime, TokenCreateTime time.Time
}

// Work is the part of a call that is the same in every peer. For Node, bench/servers/work.ts contains this part.
// bench/calls/peer-records.ts writes the records.
type Work struct {
	redis       rueidis.Client
	environment string
	// SHA-256 digests of the API tokens.
	apiTokens map[[sha256.Size]byte]bool
	// Decrypts tokens. Nil if tokens are stored in clear text.
	aead   cipher.AEAD
	prefix string
}

func openWork() (*Work, error) {
	options, err := rueidis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		return nil, err
	}
	redis, err := rueidis.NewClient(options)
	if err != nil {
		return nil, err
	}
	work := &Work{
		redis:       redis,
		environment: os.Getenv("BENCH_ENVIRONMENT"),
		apiTokens:   map[[sha256.Size]byte]bool{sha256.Sum256([]byte(os.Getenv("BENCH_API_TOKEN"))): true},
		prefix:      os.Getenv("BENCH_RECORDS"),
	}
	if text := os.Getenv("BENCH_KEY"); text != "" {
		if work.aead, err = openCipher(text, work.environment); err != nil {
			return nil, err
		}
	}
	return work, nil
}

func openCipher(text, environment string) (cipher.AEAD, error) {
	secret, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	key, err := hkdf.Key(sha256.New, secret, nil, environment, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// read authenticates an Authorization header and reads a group.
func (w *Work) read(ctx context.Context, authorization, id string) (*Group, error) {
	token, ok := strings.CutPrefix(authorization, "Token ")
	if !ok || !w.apiTokens[sha256.Sum256([]byte(token))] {
		return nil, errRefused
	}
	record, err := w.redis.Do(ctx, w.redis.B().Hgetall().Key(w.prefix+id).Build()).AsStrMap()
	if err != nil {
		return nil, err
	}
	if len(record) == 0 {
		return nil, errRefused
	}
	group := &Group{Name: record["name"], ProvidedID: record["provided_id"], Etag: record["etag"]}
	if group.Token, err = w.decrypt(record["token"], record["token_digest"]); err != nil {
		return nil, err
	}
	if group.TeamID, err = strconv.ParseInt(record["team_id"], 10, 64); err != nil {
		return nil, err
	}
	if err := json.Unmarshal([]byte(record["mapping"]), &group.Mapping); err != nil {
		return nil, err
	}
	if text, ok := record["properties"]; ok {
		if err := json.Unmarshal([]byte(text), &group.Properties); err != nil {
			return nil, err
		}
	}
	for field, target := range map[string]*time.Time{
		"create_time": &group.CreateTime, "update_time": &group.UpdateTime, "token_create_time": &group.TokenCreateTime,
	} {
		ms, err := strconv.ParseInt(record[field], 10, 64)
		if err != nil {
			return nil, err
		}
		*target = time.UnixMilli(ms)
	}
	return group, nil
}

func (w *Work) decrypt(stored, digest string) (string, error) {
	if w.aead == nil {
		return stored, nil
	}
	bytes, err := base64.RawURLEncoding.DecodeString(stored)
	if err != nil {
		return "", err
	}
	size := w.aead.NonceSize()
	if len(bytes) < size {
		return "", errors.New("an encrypted token is too short")
	}
	token, err := w.aead.Open(nil, bytes[:size], bytes[size:], []byte(w.environment+"\x00"+digest))
	return string(token), err
}
