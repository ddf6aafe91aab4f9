package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
	usergroupv1 "example.com/user-group-service/client-go/gen/usergroup/v1"
)

// Maps the name of a tag in the configuration to the tag of an environment.
var tags = map[string]usergroupv1.ApiEnvironmentTag{
	"Customer": usergroupv1.ApiEnvironmentTag_API_ENVIRONMENT_TAG_CUSTOMER,
	"Testing":  usergroupv1.ApiEnvironmentTag_API_ENVIRONMENT_TAG_TESTING,
}

var environmentPattern = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}(/(Customer|Testing))?$`)

var isEnvironment = stringvalidator.RegexMatches(environmentPattern, "must be an environment such as dev, dev/Customer or dev/Testing")

const environmentDescription = "Environment, such as `dev/Customer`. Default: the environment of the provider's token. Required for `ADMIN_TOKEN`."

func environmentText(name string, tag usergroupv1.ApiEnvironmentTag) string {
	for text, each := range tags {
		if each == tag {
			return name + "/" + text
		}
	}
	return name
}

// environmentMessage parses NAME or NAME/TAG. If the text is empty, environmentMessage returns nil, which means the
// environment of the provider's token.
func environmentMessage(text string) *adminv1.EnvironmentName {
	if text == "" {
		return nil
	}
	name, tag, _ := strings.Cut(text, "/")
	return &adminv1.EnvironmentName{Name: name, Tag: tags[tag]}
}

// environmentOf returns the configured environment, or the environment of the provider's token if no environment is
// configured.
func (s *service) environmentOf(ctx context.Context, configured types.String, diagnostics *diag.Diagnostics) types.String {
	if configured.ValueString() != "" {
		return configured
	}
	caller, err := s.Admin.GetCaller(ctx, &adminv1.GetCallerRequest{})
	if err != nil {
		addError(diagnostics, "Cannot read the environment of the provider's token", err, "")
		return configured
	}
	its := caller.GetEnvironment()
	if its == nil {
		diagnostics.AddError("The environment is missing",
			"The provider uses ADMIN_TOKEN, which has no environment. Set environment, such as dev/Customer. To import, use ENVIRONMENT/ID.")
		return configured
	}
	return types.StringValue(environmentText(its.GetName(), its.GetTag()))
}

// managedResource contains the code that all resources of the provider share.
type managedResource struct {
	// The type of the resource without the prefix of the provider, such as `webhook`.
	name    string
	service *service
}

func (r *managedResource) Metadata(_ context.Context, request resource.MetadataRequest, response *resource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + r.name
}

func (r *managedResource) Configure(_ context.Context, request resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	r.service = configured(request.ProviderData)
}

// ImportState imports an API token or a webhook by ID, or ENVIRONMENT/ID. environmentResource has its own ImportState.
func (r *managedResource) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	environment, id := "", request.ID
	if end := strings.LastIndex(request.ID, "/"); end >= 0 {
		environment, id = request.ID[:end], request.ID[end+1:]
	}
	if id == "" || (environment != "" && !environmentPattern.MatchString(environment)) {
		response.Diagnostics.AddError("The import id is not valid", "Use ID or ENVIRONMENT/ID, such as dev/ID or dev/Customer/ID.")
		return
	}
	resolved := r.service.environmentOf(ctx, types.StringValue(environment), &response.Diagnostics)
	response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("id"), id)...)
	response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("environment"), resolved)...)
	// 1 is the default of secret_version. If the configuration does not set secret_version, the next apply does not
	// rotate the secret.
	response.Diagnostics.Append(response.State.SetAttribute(ctx, path.Root("secret_version"), int64(1))...)
}

func ownedAttributes(specific map[string]schema.Attribute) map[string]schema.Attribute {
	specific["id"] = schema.StringAttribute{
		Computed: true, MarkdownDescription: "Id, chosen by the service. Not secret.",
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
	specific["environment"] = schema.StringAttribute{
		Optional: true, Computed: true, MarkdownDescription: environmentDescription,
		Validators: []validator.String{isEnvironment},
		PlanModifiers: []planmodifier.String{
			stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured(),
		},
	}
	specific["display_name"] = schema.StringAttribute{
		Required: true, MarkdownDescription: "Name for operators, 1 to 128 characters.",
		Validators: []validator.String{stringvalidator.UTF8LengthBetween(1, 128)},
	}
	specific["secret_version"] = schema.Int64Attribute{
		Optional: true, Computed: true, Default: int64default.StaticInt64(1),
		MarkdownDescription: "Any change of this number creates a new secret. Default: 1.",
	}
	specific["create_time"] = schema.StringAttribute{
		Computed: true, MarkdownDescription: "Time of the creation.",
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
	}
	return specific
}

// changedPaths returns the names of the fields whose values differ between the plan and the state.
func changedPaths(areEqual map[string]bool) (paths []string) {
	for name, isEqual := range areEqual {
		if !isEqual {
			paths = append(paths, name)
		}
	}
	return paths
}

// timeText formats a time as `2027-01-31T00:00:00Z`, or returns `otherwise` if the time is not set.
func timeText(time *timestamppb.Timestamp, otherwise string) string {
	if time == nil {
		return otherwise
	}
	return canonical(time.AsTime())
}

func canonical(value time.Time) string { return value.UTC().Format(time.RFC3339Nano) }

func timeValue(time *timestamppb.Timestamp) types.String {
	if time == nil {
		return types.StringNull()
	}
	return types.StringValue(timeText(time, ""))
}

type checked struct {
	description string
	isValid     func(string) bool
}

func (c checked) Description(context.Context) string { return c.description }

func (c checked) MarkdownDescription(context.Context) string { return c.description }

func (c checked) ValidateString(_ context.Context, request validator.StringRequest, response *validator.StringResponse) {
	if request.ConfigValue.IsNull() || request.ConfigValue.IsUnknown() || c.isValid(request.ConfigValue.ValueString()) {
		return
	}
	response.Diagnostics.AddAttributeError(request.Path, "The value is not valid", fmt.Sprintf("%s %s.", request.Path, c.description))
}
