package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/diag"

	usergroups "example.com/user-group-service/client-go"
)

// The advice for each reason of an error.
var hints = map[string]string{
	"API_TOKEN_MISSING":         "Set UGS_TOKEN or UGS_TOKEN_FILE to an API token of role admin, or to ADMIN_TOKEN.",
	"API_TOKEN_UNKNOWN":         "Check that the token of the provider belongs to this service and is not revoked or expired.",
	"API_TOKEN_MALFORMED":       "Check that the token of the provider was copied completely.",
	"ROLE_TOO_LOW":              "Use an API token of role admin. To manage environments, use ADMIN_TOKEN.",
	"OTHER_ENVIRONMENT":         "Use an API token of the configured environment, or ADMIN_TOKEN: an API token can use only its own environment.",
	"ENVIRONMENT_NOT_FOUND":     "Set environment to the id of a resource ugs_environment, so that Terraform creates the environment first.",
	"ENVIRONMENT_EXISTS":        "Import the environment with: terraform import ugs_environment.NAME ENVIRONMENT",
	"ENVIRONMENT_NOT_EMPTY":     "To delete the user groups as well, set force_destroy = true, run terraform apply, and destroy the environment again.",
	"ENVIRONMENT_BEING_DELETED": "To complete the deletion, run: ugs env delete NAME --force. Then apply again.",
	"API_TOKEN_OUTLIVES_CALLER": "Set an earlier expire_time, or use a provider token that expires at expire_time or later.",
	"TOO_MANY_API_TOKENS":       "Revoke unused API tokens: ugs token list shows the last use of each token.",
	"TOO_MANY_WEBHOOKS":         "Delete unused webhooks: ugs webhook list shows all webhooks.",
	"USER_GROUP_NOT_FOUND":      "Check user_group_id and environment: ugs group list shows the user groups.",
	"OVERLOADED":                "Apply again later. Nothing was changed.",
	"RATE_LIMITED":              "Apply again later, or with fewer parallel calls: terraform apply -parallelism=2",
	"TOO_MANY_FAILURES":         "Check the token of the provider first: too many calls from this address had no valid token.",
}

// addError adds the error of a call to the diagnostics. The text consists of the message of the service, the invalid
// fields, the advice, and the request id.
//
// ifUnknown is the advice for a call whose outcome is unknown. ifUnknown is empty if the call is safe to repeat.
func addError(diagnostics *diag.Diagnostics, summary string, err error, ifUnknown string) {
	var failed *connect.Error
	var network *net.OpError
	text := err.Error()
	if errors.As(err, &failed) {
		text = failed.Message()
	}
	lines := []string{sentence(text)}
	violations := usergroups.ViolationsOf(err)
	for field, description := range violations {
		line := fmt.Sprintf("%s: %s", field, sentence(description))
		if sentence(description) == lines[0] {
			lines[0] = line
		} else {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines[1:])
	info := usergroups.InfoOf(err)
	hint := hints[info.GetReason()]
	// If the call failed with one of these codes, the outcome of the change may be unknown.
	isOpen := slices.Contains([]connect.Code{connect.CodeUnavailable, connect.CodeDeadlineExceeded, connect.CodeCanceled}, connect.CodeOf(err))
	isNeverSent := errors.As(err, &network) && network.Op == "dial"
	switch {
	case hint != "":
		lines = append(lines, hint)
	case info == nil && errors.As(err, new(*tls.CertificateVerificationError)):
		lines = append(lines, "If the service has a private CA, set ca_file or UGS_CA_FILE.")
	case info.GetMetadata()["outcome"] == "not_made":
		lines = append(lines, "Nothing was changed. Apply again.")
	case ifUnknown != "" && isOpen && !isNeverSent:
		lines = append(lines, ifUnknown)
	case info == nil && isOpen:
		lines = append(lines, "Check url or UGS_URL, and that the service runs.")
	case info == nil:
		lines = append(lines, "The service did not return this error. Check that url is the URL of the service, and that no proxy answers instead of the service.")
	case violations["environment"] != "":
		lines = append(lines, "Set environment, such as dev, dev/Customer or dev/Testing.")
	}
	if id := usergroups.RequestIDOf(err); id != "" {
		lines = append(lines, fmt.Sprintf("Request id, which the log of the service contains: %s", id))
	}
	diagnostics.AddError(summary, strings.Join(lines, "\n"))
}

// isNotFound returns whether a call failed because the API token, the webhook or the environment does not exist.
func isNotFound(err error) bool {
	return slices.Contains([]string{"API_TOKEN_NOT_FOUND", "WEBHOOK_NOT_FOUND", "ENVIRONMENT_NOT_FOUND"}, usergroups.ReasonOf(err))
}

func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + strings.TrimRight(text[1:], ".") + "."
}
