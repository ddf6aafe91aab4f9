package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	usergroups "example.com/user-group-service/client-go"
	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
)

// The value of expire_time for a token that does not expire.
const never = "never"

// Maximum value of previous_token_ttl.
const maxGrace = 30 * 24 * time.Hour

type apiTokenResource struct{ managedResource }

type apiTokenModel struct {
	ID               types.String `tfsdk:"id"`
	Environment      types.String `tfsdk:"environment"`
	DisplayName      types.String `tfsdk:"display_name"`
	Role             types.String `tfsdk:"role"`
	ExpireTime       types.String `tfsdk:"expire_time"`
	SecretVersion    types.Int64  `tfsdk:"secret_version"`
	PreviousTokenTTL types.String `tfsdk:"previous_token_ttl"`
	CreateTime       types.String `tfsdk:"create_time"`
}

func (*apiTokenResource) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "An API token. The ephemeral resource `ugs_api_token_secret` returns the secret of the API token.",
		Attributes: ownedAttributes(map[string]schema.Attribute{
			"role": schema.StringAttribute{
				Required: true, MarkdownDescription: "`resolve`, `read`, `manage` or `admin`.",
				Validators:    []validator.String{stringvalidator.OneOf("resolve", "read", "manage", "admin")},
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"expire_time": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Expiry time in UTC, such as `2027-01-31T00:00:00Z`, or `never`. Default: the expiry time of the provider's token.",
				Validators:          []validator.String{checked{"must be a time in UTC, such as 2027-01-31T00:00:00Z, or never", isExpireTime}},
				PlanModifiers:       []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"previous_token_ttl": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "Time for which the previous secret stays valid after a change of `secret_version`. At most `720h`, such as `24h`. Default: `0s`, which revokes the previous secret immediately.",
				Validators:          []validator.String{checked{"must be a duration up to 720h, such as 15m or 24h", isGrace}},
			},
		}),
	}
}

func (r *apiTokenResource) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var model apiTokenModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &model)...)
	model.Environment = r.service.environmentOf(ctx, model.Environment, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	created, err := r.service.Admin.CreateApiToken(ctx, &adminv1.CreateApiTokenRequest{
		Environment: environmentMessage(model.Environment.ValueString()),
		DisplayName: model.DisplayName.ValueString(),
		Role:        adminv1.Role(adminv1.Role_value["ROLE_"+strings.ToUpper(model.Role.ValueString())]),
		ExpireTime:  expireTimeMessage(model.ExpireTime),
	})
	if err != nil {
		addError(&response.Diagnostics, fmt.Sprintf("Cannot create the API token %q", model.DisplayName.ValueString()), err,
			"The service may have created the API token. Before you apply again, find the token with: ugs token list, and revoke the token with: ugs token revoke ID")
		return
	}
	r.service.secrets.Store(created.GetApiToken().GetId(), created.GetToken())
	planned := model.ExpireTime
	model.read(created.GetApiToken())
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
	if planned.ValueString() == never && model.ExpireTime.ValueString() != never {
		response.Diagnostics.AddError("The API token expires",
			fmt.Sprintf("The token of the provider expires, so the new API token also expires, at %s. "+
				"Remove expire_time, or use a provider token that does not expire.", model.ExpireTime.ValueString()))
	}
}

func (r *apiTokenResource) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var model apiTokenModel
	response.Diagnostics.Append(request.State.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	found := r.find(ctx, model, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	if found == nil {
		response.State.RemoveResource(ctx)
		return
	}
	model.read(found)
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

func (r *apiTokenResource) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var state, model apiTokenModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	response.Diagnostics.Append(request.Plan.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	environment, id := environmentMessage(model.Environment.ValueString()), model.ID.ValueString()
	if paths := changedPaths(map[string]bool{
		"display_name": model.DisplayName.Equal(state.DisplayName), "expire_time": model.ExpireTime.Equal(state.ExpireTime),
	}); len(paths) > 0 {
		updated, err := r.service.Admin.UpdateApiToken(ctx, &adminv1.UpdateApiTokenRequest{
			Environment: environment,
			ApiTokenId:  id,
			DisplayName: model.DisplayName.ValueString(),
			ExpireTime:  expireTimeMessage(model.ExpireTime),
			UpdateMask:  &fieldmaskpb.FieldMask{Paths: paths},
		})
		if err != nil {
			addError(&response.Diagnostics, "Cannot update the API token "+id, err, "Apply again: the plan shows the remaining differences.")
			return
		}
		model.read(updated.GetApiToken())
	}
	if !model.SecretVersion.Equal(state.SecretVersion) {
		grace, _ := time.ParseDuration(model.PreviousTokenTTL.ValueString())
		rotated, err := r.service.Admin.RotateApiToken(ctx, &adminv1.RotateApiTokenRequest{
			Environment: environment, ApiTokenId: id, PreviousTokenTtl: durationpb.New(grace),
		})
		if err != nil {
			addError(&response.Diagnostics, "Cannot rotate the secret of the API token "+id, err,
				"The service may have rotated the secret. Apply again, which rotates the secret again.")
			return
		}
		r.service.secrets.Store(id, rotated.GetToken())
		model.read(rotated.GetApiToken())
	}
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

func (r *apiTokenResource) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var model apiTokenModel
	response.Diagnostics.Append(request.State.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	_, err := r.service.Admin.RevokeApiToken(ctx, &adminv1.RevokeApiTokenRequest{
		Environment: environmentMessage(model.Environment.ValueString()), ApiTokenId: model.ID.ValueString(),
	})
	if err != nil && !isNotFound(err) {
		addError(&response.Diagnostics, "Cannot revoke the API token "+model.ID.ValueString(), err, "The service may have revoked the API token. Destroy the resource again.")
	}
}

// find returns the API token, or nil if the token is revoked or expired.
func (r *apiTokenResource) find(ctx context.Context, model apiTokenModel, diagnostics *diag.Diagnostics) *adminv1.ApiToken {
	list := &adminv1.ListApiTokensRequest{Environment: environmentMessage(model.Environment.ValueString()), PageSize: 1000}
	for page, err := range usergroups.Pages(ctx, r.service.Admin.ListApiTokens, list) {
		if isNotFound(err) {
			return nil
		}
		if err != nil {
			addError(diagnostics, "Cannot read the API token "+model.ID.ValueString(), err, "")
			return nil
		}
		index := slices.IndexFunc(page.GetApiTokens(), func(each *adminv1.ApiToken) bool { return each.GetId() == model.ID.ValueString() })
		if index >= 0 {
			return page.GetApiTokens()[index]
		}
	}
	return nil
}

func (m *apiTokenModel) read(from *adminv1.ApiToken) {
	m.ID = types.StringValue(from.GetId())
	m.DisplayName = types.StringValue(from.GetDisplayName())
	m.Role = types.StringValue(strings.ToLower(strings.TrimPrefix(from.GetRole().String(), "ROLE_")))
	m.ExpireTime = types.StringValue(timeText(from.GetExpireTime(), never))
	m.CreateTime = timeValue(from.GetCreateTime())
}

// expireTimeMessage returns the configured time, or nil if the time is `never` or not configured.
func expireTimeMessage(text types.String) *timestamppb.Timestamp {
	parsed, err := time.Parse(time.RFC3339, text.ValueString())
	if err != nil {
		return nil
	}
	return timestamppb.New(parsed)
}

// isExpireTime returns whether the text is `never`, or a time in the format of the function canonical. Other formats
// are invalid, because Terraform compares the configured text with the state, which contains a text in that format. A
// time with digits after the milliseconds is invalid, because the service stores only milliseconds.
func isExpireTime(text string) bool {
	parsed, err := time.Parse(time.RFC3339, text)
	return text == never || (err == nil && canonical(parsed.Truncate(time.Millisecond)) == text)
}

func isGrace(text string) bool {
	parsed, err := time.ParseDuration(text)
	return err == nil && parsed >= 0 && parsed <= maxGrace
}
