package main

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	adminv1 "example.com/user-group-service/client-go/gen/usergroup/admin/v1"
)

type webhookResource struct{ managedResource }

type webhookModel struct {
	ID            types.String `tfsdk:"id"`
	Environment   types.String `tfsdk:"environment"`
	DisplayName   types.String `tfsdk:"display_name"`
	URL           types.String `tfsdk:"url"`
	EventTypes    types.Set    `tfsdk:"event_types"`
	Enabled       types.Bool   `tfsdk:"enabled"`
	SecretVersion types.Int64  `tfsdk:"secret_version"`
	CreateTime    types.String `tfsdk:"create_time"`
}

func (*webhookResource) Schema(_ context.Context, _ resource.SchemaRequest, response *resource.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "A webhook. The ephemeral resource `ugs_webhook_secret` returns the secret that signs the messages of the webhook.",
		Attributes: ownedAttributes(map[string]schema.Attribute{
			"url": schema.StringAttribute{
				Required: true, MarkdownDescription: "`https://` URL that receives the events.",
			},
			"event_types": schema.SetAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Types of the events that the webhook receives, such as `user_group.updated`. Default: all types.",
				Validators: []validator.Set{
					setvalidator.SizeAtLeast(1), setvalidator.ValueStringsAre(stringvalidator.NoneOf("*")),
				},
			},
			"enabled": schema.BoolAttribute{
				Optional: true, Computed: true, Default: booldefault.StaticBool(true),
				MarkdownDescription: "Whether the webhook receives events. The service disables a webhook after three days of failures. The next apply enables the webhook again. Default: true.",
			},
		}),
	}
}

func (r *webhookResource) Create(ctx context.Context, request resource.CreateRequest, response *resource.CreateResponse) {
	var plan webhookModel
	response.Diagnostics.Append(request.Plan.Get(ctx, &plan)...)
	plan.Environment = r.service.environmentOf(ctx, plan.Environment, &response.Diagnostics)
	eventTypes := plan.eventTypes(ctx, &response.Diagnostics)
	if response.Diagnostics.HasError() {
		return
	}
	created, err := r.service.Admin.CreateWebhook(ctx, &adminv1.CreateWebhookRequest{
		Environment: environmentMessage(plan.Environment.ValueString()),
		DisplayName: plan.DisplayName.ValueString(),
		Url:         plan.URL.ValueString(),
		EventTypes:  eventTypes,
	})
	if err != nil {
		addError(&response.Diagnostics, fmt.Sprintf("Cannot create the webhook %q", plan.DisplayName.ValueString()), err,
			"The service may have created the webhook. Before you apply again, find the webhook with: ugs webhook list, and delete the webhook with: ugs webhook delete ID")
		return
	}
	r.service.secrets.Store(created.GetWebhook().GetId(), created.GetSecret())
	model := plan
	response.Diagnostics.Append(model.read(ctx, created.GetWebhook())...)
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
	if !plan.Enabled.ValueBool() && !response.Diagnostics.HasError() {
		plan.ID = model.ID
		r.update(ctx, &plan, []string{"enabled"}, &response.Diagnostics)
		if !response.Diagnostics.HasError() {
			response.Diagnostics.Append(response.State.Set(ctx, plan)...)
		}
	}
}

func (r *webhookResource) Read(ctx context.Context, request resource.ReadRequest, response *resource.ReadResponse) {
	var model webhookModel
	response.Diagnostics.Append(request.State.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	found, err := r.service.Admin.GetWebhook(ctx, &adminv1.GetWebhookRequest{
		Environment: environmentMessage(model.Environment.ValueString()), WebhookId: model.ID.ValueString(),
	})
	if isNotFound(err) {
		response.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		addError(&response.Diagnostics, "Cannot read the webhook "+model.ID.ValueString(), err, "")
		return
	}
	if found.GetWebhook().GetState() == adminv1.WebhookState_WEBHOOK_STATE_SECRET_UNREADABLE {
		response.Diagnostics.AddWarning(fmt.Sprintf("The webhook %s sends no messages", model.ID.ValueString()),
			"The service cannot decrypt the secret of the webhook with TOKEN_KEYS. Increase secret_version, which replaces the secret.")
	}
	response.Diagnostics.Append(model.read(ctx, found.GetWebhook())...)
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

func (r *webhookResource) Update(ctx context.Context, request resource.UpdateRequest, response *resource.UpdateResponse) {
	var state, model webhookModel
	response.Diagnostics.Append(request.State.Get(ctx, &state)...)
	response.Diagnostics.Append(request.Plan.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	if paths := changedPaths(map[string]bool{
		"display_name": model.DisplayName.Equal(state.DisplayName), "url": model.URL.Equal(state.URL),
		"event_types": model.EventTypes.Equal(state.EventTypes), "enabled": model.Enabled.Equal(state.Enabled),
	}); len(paths) > 0 {
		r.update(ctx, &model, paths, &response.Diagnostics)
	}
	if response.Diagnostics.HasError() {
		return
	}
	if !model.SecretVersion.Equal(state.SecretVersion) {
		rotated, err := r.service.Admin.RotateWebhookSecret(ctx, &adminv1.RotateWebhookSecretRequest{
			Environment: environmentMessage(model.Environment.ValueString()), WebhookId: model.ID.ValueString(),
		})
		if err != nil {
			addError(&response.Diagnostics, "Cannot rotate the secret of the webhook "+model.ID.ValueString(), err,
				"The service may have rotated the secret. Apply again, which rotates the secret again.")
			return
		}
		r.service.secrets.Store(model.ID.ValueString(), rotated.GetSecret())
	}
	response.Diagnostics.Append(response.State.Set(ctx, model)...)
}

func (r *webhookResource) Delete(ctx context.Context, request resource.DeleteRequest, response *resource.DeleteResponse) {
	var model webhookModel
	response.Diagnostics.Append(request.State.Get(ctx, &model)...)
	if response.Diagnostics.HasError() {
		return
	}
	_, err := r.service.Admin.DeleteWebhook(ctx, &adminv1.DeleteWebhookRequest{
		Environment: environmentMessage(model.Environment.ValueString()), WebhookId: model.ID.ValueString(),
	})
	if err != nil && !isNotFound(err) {
		addError(&response.Diagnostics, "Cannot delete the webhook "+model.ID.ValueString(), err, "The service may have deleted the webhook. Destroy the resource again.")
	}
}

// update changes fields of the webhook, and copies the response to the model.
func (r *webhookResource) update(ctx context.Context, model *webhookModel, paths []string, diagnostics *diag.Diagnostics) {
	eventTypes := model.eventTypes(ctx, diagnostics)
	if diagnostics.HasError() {
		return
	}
	updated, err := r.service.Admin.UpdateWebhook(ctx, &adminv1.UpdateWebhookRequest{
		Environment: environmentMessage(model.Environment.ValueString()),
		WebhookId:   model.ID.ValueString(),
		DisplayName: model.DisplayName.ValueString(),
		Url:         model.URL.ValueString(),
		EventTypes:  eventTypes,
		Enabled:     model.Enabled.ValueBool(),
		UpdateMask:  &fieldmaskpb.FieldMask{Paths: paths},
	})
	if err != nil {
		addError(diagnostics, "Cannot update the webhook "+model.ID.ValueString(), err, "Apply again: the plan shows the remaining differences.")
		return
	}
	diagnostics.Append(model.read(ctx, updated.GetWebhook())...)
}

// eventTypes returns the configured types of events. An empty list means all types.
func (m *webhookModel) eventTypes(ctx context.Context, diagnostics *diag.Diagnostics) (eventTypes []string) {
	diagnostics.Append(m.EventTypes.ElementsAs(ctx, &eventTypes, false)...)
	return eventTypes
}

func (m *webhookModel) read(ctx context.Context, from *adminv1.Webhook) (diagnostics diag.Diagnostics) {
	m.ID = types.StringValue(from.GetId())
	m.DisplayName = types.StringValue(from.GetDisplayName())
	m.URL = types.StringValue(from.GetUrl())
	m.EventTypes = types.SetNull(types.StringType)
	if len(from.GetEventTypes()) > 0 {
		m.EventTypes, diagnostics = types.SetValueFrom(ctx, types.StringType, from.GetEventTypes())
	}
	state := from.GetState()
	m.Enabled = types.BoolValue(state == adminv1.WebhookState_WEBHOOK_STATE_ENABLED || state == adminv1.WebhookState_WEBHOOK_STATE_SECRET_UNREADABLE)
	m.CreateTime = timeValue(from.GetCreateTime())
	return diagnostics
}
