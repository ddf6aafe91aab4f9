package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	usergroups "example.com/user-group-service/client-go"
	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
)

type environmentResource struct{ managedResource }

type environmentModel struct {
	ID           types.String `tfsdk:"id"`
	Name         types.String `tfsdk:"name"`
	Tag          types.String `tfsdk:"tag"`
	ForceDestroy types.Bool   `tfsdk:"force_destroy"`
	CreateTime   types.String `tfsdk:"create_time"`
}

func (*environmentResource) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	kept := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	replaced := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	response.Schema = schema.Schema{
		MarkdownDescription: "An environment. To manage environments, the provider needs `ADMIN_TOKEN`.",
		Attributes: map[string]schema.Attribute{
			"id": schema.StringAttribute{
				Computed: true, PlanModifiers: kept,
				MarkdownDescription: "`NAME` or `NAME/TAG`: the value of `environment` of other resources, and the import id.",
			},
			"name": schema.StringAttribute{
				Required: true, PlanModifiers: replaced, MarkdownDescription: "Name: 1 to 64 letters, digits, `.`, `_` and `-`.",
				Validators: []validator.String{isEnvironment, stringvalidator.RegexMatches(regexp.MustCompile("^[^/]*$"), "must not contain the tag: set tag")},
			},
			"tag": schema.StringAttribute{
				Optional: true, PlanModifiers: replaced, MarkdownDescription: "`Customer` or `Testing`. Default: none.",
				Validators: []validator.String{stringvalidator.OneOf("Customer", "Testing")},
			},
			"force_destroy": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(false),
				MarkdownDescription: "Whether `terraform destroy` also deletes the user groups of the environment. Default: false.",
			},
			"create_time": schema.StringAttribute{Computed: true, PlanModifiers: kept, MarkdownDescription: "Time of the creation of the environment."},
		},
	}
}

func (r *environmentResource) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var model environmentModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	name := &adminv1.EnvironmentName{Name: model.Name.ValueString(), Tag: tags[model.Tag.ValueString()]}
	id := environmentText(name.GetName(), name.GetTag())
	created, err := r.service.Admin.CreateEnvironment(ctx, &adminv1.CreateEnvironmentRequest{Environment: name})
	if err != nil {
		addError(&response.Diagnostics, "Cannot create the environment "+id, err,
			"The service may have created the environment. If the next apply reports that the environment exists, import the environment with: terraform import ADDRESS "+id)
		return
	}
	model.read(created.GetEnvironment())
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

func (r *environmentResource) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var model environmentModel
	response.Diagnostics.Append(request.State.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	found := r.find(ctx, model.ID.ValueString(), &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	if found == nil {
		response.State.RemoveResource(ctx)
		return
	}
	if found.GetDeleteTime() != nil {
		response.Diagnostics.AddWarning(fmt.Sprintf("The deletion of the environment %s is not complete", model.ID.ValueString()),
			"Until the deletion is complete, no call can use the environment. To complete the deletion, run terraform destroy for the environment, or: ugs env delete NAME --force")
	}
	model.read(found)
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

// Update implements [resource.Resource]. Only force_destroy can change. The service does not store force_destroy.
func (r *environmentResource) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var model environmentModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &model)...)
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

func (r *environmentResource) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var model environmentModel
	response.Diagnostics.Append(request.State.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	deletion := &adminv1.DeleteEnvironmentRequest{
		Environment: environmentMessage(model.ID.ValueString()), Force: model.ForceDestroy.ValueBool(),
	}
	for {
		deleted, err := r.service.Admin.DeleteEnvironment(ctx, deletion)
		if isNotFound(err) || (err == nil && deleted.GetDone()) {
			return
		}
		if err != nil {
			addError(&response.Diagnostics, "Cannot delete the environment "+model.ID.ValueString(), err,
				"The deletion may have started. To complete the deletion, destroy the environment again.")
			return
		}
	}
}

func (r *environmentResource) ImportState(ctx context.Context, request resource.ImportStateRequest, response *resource.ImportStateResponse) {
	model := environmentModel{ID: types.StringValue(request.ID), ForceDestroy: types.BoolValue(false)}
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

// find lists all environments, because GetEnvironment does not return an environment that is being deleted.
func (r *environmentResource) find(ctx context.Context, id string, diagnostics *diag.Diagnostics) *adminv1.Environment {
	for page, err := range usergroups.Pages(ctx, r.service.Admin.ListEnvironments, &adminv1.ListEnvironmentsRequest{PageSize: 1000}) {
		if err != nil {
			addError(diagnostics, "Cannot read the environment "+id, err, "")
			return nil
		}
		index := slices.IndexFunc(page.GetEnvironments(), func(each *adminv1.Environment) bool {
			return environmentText(each.GetName(), each.GetTag()) == id
		})
		if index >= 0 {
			return page.GetEnvironments()[index]
		}
	}
	return nil
}

func (m *environmentModel) read(from *adminv1.Environment) {
	m.ID = types.StringValue(environmentText(from.GetName(), from.GetTag()))
	m.Name = types.StringValue(from.GetName())
	m.Tag = types.StringNull()
	for text, tag := range tags {
		if tag == from.GetTag() {
			m.Tag = types.StringValue(text)
		}
	}
	m.CreateTime = timeValue(from.GetCreateTime())
}
