package usergroups

import (
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
)

// The ErrorInfo.domain of the service's reasons; proxies send reasons of their own.
const errorDomain = "user-group-service"

// The header with the id by which the service's log has a call.
const requestIDHeader = "X-Request-Id"

// ReasonOf is why a call failed: a stable name, such as USER_GROUP_NOT_FOUND, of the table of errors in docs/api.md. It is
// empty when the error is not one of the service, such as a connection that was refused.
func ReasonOf(err error) string {
	return InfoOf(err).GetReason()
}

// ViolationsOf has the invalid fields of a request, by their names in the proto files, and what is wrong with each.
func ViolationsOf(err error) map[string]string {
	violations := map[string]string{}
	for _, each := range detailOf[*errdetails.BadRequest](err).GetFieldViolations() {
		violations[each.GetField()] = each.GetDescription()
	}
	return violations
}

// InfoOf is the service's ErrorInfo of an error; nil when it has none.
func InfoOf(err error) *errdetails.ErrorInfo {
	if info := detailOf[*errdetails.ErrorInfo](err); info.GetDomain() == errorDomain {
		return info
	}
	return nil
}

// RequestIDOf returns the id by which the service's log has a failed call; "" if the error is not that of a call.
func RequestIDOf(err error) string {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return ""
	}
	return failed.Meta().Get(requestIDHeader)
}

func detailOf[T proto.Message](err error) (found T) {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return found
	}
	for _, detail := range failed.Details() {
		if value, err := detail.Value(); err == nil {
			if wanted, ok := value.(T); ok {
				return wanted
			}
		}
	}
	return found
}
