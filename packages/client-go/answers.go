package usergroups

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connectrpc.com/connect"
)

// Maximum size of a response, in bytes after decompression. A page of groups has a few MiB.
const maxAnswerBytes = 64 << 20

// wholeAnswers is an HTTP client that reads each unary response completely before connect processes the response.
// connect does not limit the size of error responses, so wholeAnswers limits the size of all responses. If a connection
// breaks, connect alone would report one of several codes. wholeAnswers always reports the code unavailable.
type wholeAnswers struct{ client connect.HTTPClient }

func (w wholeAnswers) Do(request *http.Request) (*http.Response, error) {
	// If the request has no Accept-Encoding header, net/http requests compression and decompresses the response.
	request.Header.Del("Accept-Encoding")
	response, err := w.client.Do(request)
	if err != nil {
		return nil, broken(request, err)
	}
	// A response with this content type is a stream, which must not be read to its end here.
	if strings.HasPrefix(response.Header.Get("Content-Type"), "application/connect+") {
		return response, nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, broken(request, fmt.Errorf("the response broke off: %w", err))
	}
	if len(body) > maxAnswerBytes {
		return nil, connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the response is larger than %d bytes", maxAnswerBytes))
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// broken converts the error of a broken connection to an error with the code unavailable. If the call was canceled or
// has reached its deadline, broken returns err unchanged.
func broken(request *http.Request, err error) error {
	if request.Context().Err() != nil {
		return err
	}
	return connect.NewError(connect.CodeUnavailable, err)
}
