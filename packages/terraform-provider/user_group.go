package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
)

type userGroupDataSource struct{ service *service }

type userGroupModel struct {
	UserGroupID      types.String `tfsdk:"user_group_id"`
	Environment      types.String `tfsdk:"environment"`
	TeamID           types.Int64  `tfsdk:"team_id"`
	Name             types.String `tfsdk:"name"`
	Mapping          types.Map    `tfsdk:"mapping"`
	Properties       types.String `tfsdk:"properties"`
	CreateTime       types.String `tfsdk:"create_time"`
	UpdateTime       types.String `tfsdk:"update_time"`
	ExpireTime       types.String `tfsdk:"expire_time"`
	Suspended        types.Bool   `tfsdk:"suspended"`
	SuspensionReason types.String `tfsdk:"suspension_reason"`
}

func (*userGroupDataSource) Metadata(_ context.Context, request datasource.MetadataRequest, response *datasource.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_user_group"
}

func (*userGroupDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, response *datasource.SchemaResponse) {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	response.Schema = schema.Schema{
		MarkdownDescription: "A user group, without its token.",
		Attributes: map[string]schema.Attribute{
			"user_group_id": schema.StringAttribute{Required: true, MarkdownDescription: "Id of the user group."},
			"environment": schema.StringAttribute{
				Optional: true, MarkdownDescription: environmentDescription, Validators: []validator.String{isEnvironment},
			},
			"team_id":           schema.Int64Attribute{Computed: true, MarkdownDescription: "Internal id."},
			"name":              text("Display name."),
			"mapping":           schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "Maps schema ids to data sources."},
			"properties":        text("JSON object, for `jsondecode`. Null if the group has no properties."),
			"create_time":       text("Time of the creation of the group."),
			"update_time":       text("Time of the last change of the group."),
			"expire_time":       text("Time from which the group is suspended. Null if the group does not expire."),
			"suspended":         schema.BoolAttribute{Computed: true, MarkdownDescription: "Whether the group is suspended."},
			"suspension_reason": text("Reason of the suspension. Null if the group is not suspended."),
		},
	}
}

func (d *userGroupDataSource) Configure(_ context.Context, request datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	d.service = configured(request.ProviderData)
}

func (d *userGroupDataSource) Read(ctx context.Context, request datasource.ReadRequest, response *datasource.ReadResponse) {
	var model userGroupModel
	response.Diagnostics.Append(request.Config.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := d.service.Admin.LookupUserGroup(ctx, &adminv1.LookupUserGroupRequest{
		Environment: environmentMessage(model.Environment.ValueString()), UserGroupId: model.UserGroupID.ValueString(),
	})
	if err != nil {
		addError(&response.Diagnostics, fmt.Sprintf("Cannot read the user group %q", model.UserGroupID.ValueString()), err, "")
		return
	}
	group := found.GetUserGroup()
	model.TeamID = types.Int64Value(group.GetTeamId())
	model.Name = types.StringValue(group.GetName())
	mapping, diagnostics := types.MapValueFrom(ctx, types.StringType, group.GetMapping())
	response.Diagnostics.Append(diagnostics...)
	model.Mapping = mapping
	if group.GetProperties() != nil {
		// Do not use protojson: it adds random spaces to its output, so two reads could return different texts.
		properties, err := json.Marshal(group.GetProperties().AsMap())
		if err != nil {
			response.Diagnostics.AddError("Cannot read the properties of the user group", sentence(err.Error()))
		}
		model.Properties = types.StringValue(string(properties))
	}
	model.CreateTime = timeValue(group.GetCreateTime())
	model.UpdateTime = timeValue(group.GetUpdateTime())
	model.ExpireTime = timeValue(group.GetExpireTime())
	model.Suspended = types.BoolValue(group.GetSuspension() != nil)
	if group.GetSuspension() != nil {
		model.SuspensionReason = types.StringValue(group.GetSuspension().GetReason())
	}
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}
