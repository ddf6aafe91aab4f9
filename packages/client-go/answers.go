package usergroups

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"
)

// The largest answer, in bytes after decompression: a page of groups has a few MiB.
const maxAnswerBytes = 64 << 20

// wholeAnswers reads each answer before connect sees it: connect limits no error's size, and has several codes for
// connections that broke.
type wholeAnswers struct{ client connect.HTTPClient }

// Do implements [connect.HTTPClient].
func (w wholeAnswers) Do(request *http.Request) (*http.Response, error) {
	// Without it net/http asks for compression, and decompresses.
	request.Header.Del("Accept-Encoding")
	response, err := w.client.Do(request)
	if err != nil {
		return nil, broken(request, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, broken(request, fmt.Errorf("the answer was cut off: %w", err))
	}
	if len(body) > maxAnswerBytes {
		return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the answer is larger than %d bytes", maxAnswerBytes))
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// broken is the error of a connection that broke, unless it broke because the call has ended.
func broken(request *http.Request, err error) error {
	if request.Context().Err() != nil {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, err)
}
