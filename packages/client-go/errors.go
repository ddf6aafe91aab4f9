package usergroups

import (
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
)

// The domain of ErrorInfo in all errors of the service. An error of a proxy has another domain, or no ErrorInfo.
const errorDomain = "user-group-service"

// The header with the request id. The log of the service contains this id.
const requestIDHeader = "X-Request-Id"

// ReasonOf returns the reason of an error, such as USER_GROUP_NOT_FOUND. docs/api.md lists the reasons. The reason is
// empty if the error does not come from the service, for example because the connection was refused.
func ReasonOf(err error) string {
	return InfoOf(err).GetReason()
}

// ViolationsOf returns the invalid fields of the request that failed with err. Each key is a field name of the proto
// files, and each value describes the violation. The map is empty if the error names no field.
func ViolationsOf(err error) map[string]string {
	violations := map[string]string{}
	for _, each := range detailOf[*errdetails.BadRequest](err).GetFieldViolations() {
		violations[each.GetField()] = each.GetDescription()
	}
	return violations
}

// InfoOf returns the ErrorInfo in an error of the service, or nil if the service did not return the error.
func InfoOf(err error) *errdetails.ErrorInfo {
	if info := detailOf[*errdetails.ErrorInfo](err); info.GetDomain() == errorDomain {
		return info
	}
	return nil
}

// SuspensionOf returns whether a call failed because the user group is suspended. If isSuspended is true, `message` is
// the message for the page. The message can be empty.
func SuspensionOf(err error) (message string, isSuspended bool) {
	info := InfoOf(err)
	return info.GetMetadata()["suspension_message"], info.GetReason() == "USER_GROUP_SUSPENDED"
}

// RequestIDOf returns the request id of a failed call. The log of the service contains this id. The id is empty if the
// error does not come from a call.
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
