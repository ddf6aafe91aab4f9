package main

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// secretResource is an ephemeral resource. The resource returns a secret that the service created in the same apply.
// The configuration refers to the API token or webhook that owns the secret, so Terraform applies the API token or
// webhook first, and then calls Open.
type secretResource struct {
	// The type of the resource that owns the secret: `api_token` or `webhook`.
	of      string
	service *service
}

func (r *secretResource) Metadata(_ context.Context, request ephemeral.MetadataRequest, response *ephemeral.MetadataResponse) {
	response.TypeName = request.ProviderTypeName + "_" + r.of + "_secret"
}

func (r *secretResource) Schema(_ context.Context, _ ephemeral.SchemaRequest, response *ephemeral.SchemaResponse) {
	response.Schema = schema.Schema{
		MarkdownDescription: "Returns the secret of `ugs_" + r.of + "` only in the apply that creates the resource or changes its `secret_version`.",
		Attributes: map[string]schema.Attribute{
			r.of + "_id": schema.StringAttribute{
				Required: true, MarkdownDescription: "Reference to the `id` of the resource `ugs_" + r.of + "` of the same provider configuration.",
			},
			"secret": schema.StringAttribute{
				Computed: true, Sensitive: true,
				MarkdownDescription: "The secret. The service shows each secret only once, so this attribute is null if this run has not created a secret.",
			},
		},
	}
}

func (r *secretResource) Configure(_ context.Context, request ephemeral.ConfigureRequest, _ *ephemeral.ConfigureResponse) {
	r.service = configured(request.ProviderData)
}

func (r *secretResource) Open(ctx context.Context, request ephemeral.OpenRequest, response *ephemeral.OpenResponse) {
	var id types.String
	response.Diagnostics.Append(request.Config.GetAttribute(ctx, path.Root(r.of+"_id"), &id)...)
	if response.Diagnostics.HasError() {
		return
	}
	secret := types.StringNull()
	if created, isNew := r.service.secrets.Load(id.ValueString()); isNew {
		secret = types.StringValue(created.(string))
	}
	response.Diagnostics.Append(response.Result.SetAttribute(ctx, path.Root(r.of+"_id"), id)...)
	response.Diagnostics.Append(response.Result.SetAttribute(ctx, path.Root("secret"), secret)...)
}
