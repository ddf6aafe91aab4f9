package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	usergroups "example.com/user-group-service/client-go"
)

// service contains the client and the secrets that this process received. All resources share one service.
type service struct {
	*usergroups.Client
	// secrets maps ids of API tokens and webhooks to their secrets. In each apply, Terraform runs one process per
	// provider configuration, so the ephemeral resources of this apply can read the secrets here. The secrets are lost
	// when the process ends.
	secrets sync.Map
}

type ugsProvider struct{}

func newProvider() provider.Provider { return ugsProvider{} }

type providerModel struct {
	URL        types.String `tfsdk:"url"`
	Token      types.String `tfsdk:"token"`
	TokenFile  types.String `tfsdk:"token_file"`
	CAFile     types.String `tfsdk:"ca_file"`
	CertFile   types.String `tfsdk:"cert_file"`
	KeyFile    types.String `tfsdk:"key_file"`
	ServerName types.String `tfsdk:"server_name"`
	Timeout    types.String `tfsdk:"timeout"`
}

func (ugsProvider) Metadata(_ context.Context, _ provider.MetadataRequest, response *provider.MetadataResponse) {
	response.TypeName = "ugs"
}

func (ugsProvider) Schema(_ context.Context, _ provider.SchemaRequest, response *provider.SchemaResponse) {
	optional := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Optional: true, MarkdownDescription: description}
	}
	token := optional("An API token of role `admin`, or `ADMIN_TOKEN` of the service. Default: `token_file`, then the variables `UGS_TOKEN` and `UGS_TOKEN_FILE`.")
	token.Sensitive = true
	response.Schema = schema.Schema{
		MarkdownDescription: "Manages environments, API tokens and webhooks of the User Group Service.",
		Attributes: map[string]schema.Attribute{
			"url":         optional("URL of the service, such as `https://groups.example.com`. Default: the variable `UGS_URL`."),
			"token":       token,
			"token_file":  optional("File with the token."),
			"ca_file":     optional("CA certificates in PEM that verify the certificate of the service. Default: the variable `UGS_CA_FILE`, then the CA certificates of the system."),
			"cert_file":   optional("Client certificate in PEM. Default: the variable `UGS_CERT_FILE`."),
			"key_file":    optional("Private key of the client certificate in PEM. Default: the variable `UGS_KEY_FILE`."),
			"server_name": optional("Name in the certificate of the service. Default: the variable `UGS_SERVER_NAME`, then the host of the URL."),
			"timeout":     optional("Time limit of a call with its retries, such as `30s`. Default: the variable `UGS_TIMEOUT`, then 10 seconds."),
		},
	}
}

func (ugsProvider) Configure(ctx context.Context, request provider.ConfigureRequest, response *provider.ConfigureResponse) {
	var config providerModel
	response.Diagnostics.Append(request.Config.Get(ctx, &config)...)
	if response.Diagnostics.HasError() {
		return
	}
	for name, value := range map[string]types.String{
		"url": config.URL, "token": config.Token, "token_file": config.TokenFile, "ca_file": config.CAFile,
		"cert_file": config.CertFile, "key_file": config.KeyFile, "server_name": config.ServerName, "timeout": config.Timeout,
	} {
		if value.IsUnknown() {
			response.Diagnostics.AddAttributeError(path.Root(name), "The value is not known yet",
				"The provider connects during the plan. First create the resource that provides the value, with: terraform apply -target=RESOURCE")
		}
	}
	if response.Diagnostics.HasError() {
		return
	}
	url := valueOr(config.URL, "UGS_URL")
	if url == "" {
		response.Diagnostics.AddAttributeError(path.Root("url"), "The provider has no URL of the service",
			"Set url, or the variable UGS_URL, such as https://groups.example.com.")
	}
	token := tokenOf(config, &response.Diagnostics)
	options := usergroups.Options{HTTPClient: httpClientOf(config, &response.Diagnostics), Timeout: timeoutOf(config, &response.Diagnostics)}
	if response.Diagnostics.HasError() {
		return
	}
	client, err := usergroups.New(url, usergroups.StaticToken(token), options)
	if err != nil {
		response.Diagnostics.AddError("The configuration of the provider is not valid", sentence(err.Error()))
		return
	}
	shared := &service{Client: client}
	response.ResourceData, response.DataSourceData, response.EphemeralResourceData = shared, shared, shared
}

func (ugsProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{
		func() resource.Resource { return &environmentResource{managedResource{name: "environment"}} },
		func() resource.Resource { return &apiTokenResource{managedResource{name: "api_token"}} },
		func() resource.Resource { return &webhookResource{managedResource{name: "webhook"}} },
	}
}

func (ugsProvider) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return &userGroupDataSource{} }}
}

func (ugsProvider) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{
		func() ephemeral.EphemeralResource { return &secretResource{of: "api_token"} },
		func() ephemeral.EphemeralResource { return &secretResource{of: "webhook"} },
	}
}

// valueOr returns the attribute, or the environment variable if the attribute is not set.
func valueOr(attribute types.String, variable string) string {
	if !attribute.IsNull() {
		return attribute.ValueString()
	}
	return os.Getenv(variable)
}

// tokenOf returns the API token in the attributes. If no attribute is set, tokenOf returns the API token in the
// environment variables.
func tokenOf(config providerModel, diagnostics *diag.Diagnostics) string {
	if !config.Token.IsNull() {
		if !config.TokenFile.IsNull() {
			diagnostics.AddAttributeError(path.Root("token_file"), "Both token and token_file are set", "Set token or token_file, not both.")
		}
		return config.Token.ValueString()
	}
	if config.TokenFile.IsNull() && os.Getenv("UGS_TOKEN") != "" {
		return os.Getenv("UGS_TOKEN")
	}
	file := valueOr(config.TokenFile, "UGS_TOKEN_FILE")
	if file == "" {
		diagnostics.AddAttributeError(path.Root("token"), "The provider has no API token",
			"Set the variable UGS_TOKEN or UGS_TOKEN_FILE, or the attribute token_file or token. "+
				"To create a token, run: ugs token create --env NAME --role admin --name terraform")
		return ""
	}
	return string(contentOf(file, "token_file", diagnostics))
}

// httpClientOf returns a client that follows no redirects, because a redirect could send the token to another host.
func httpClientOf(config providerModel, diagnostics *diag.Diagnostics) *http.Client {
	settings := &tls.Config{ServerName: valueOr(config.ServerName, "UGS_SERVER_NAME")}
	if file := valueOr(config.CAFile, "UGS_CA_FILE"); file != "" {
		settings.RootCAs = x509.NewCertPool()
		if pem := contentOf(file, "ca_file", diagnostics); pem != nil && !settings.RootCAs.AppendCertsFromPEM(pem) {
			diagnostics.AddAttributeError(path.Root("ca_file"), "The file contains no certificate in PEM",
				fmt.Sprintf("%s must have a line -----BEGIN CERTIFICATE-----.", file))
		}
	}
	cert, key := valueOr(config.CertFile, "UGS_CERT_FILE"), valueOr(config.KeyFile, "UGS_KEY_FILE")
	if (cert == "") != (key == "") {
		diagnostics.AddError("The client certificate is incomplete", "Set both cert_file and key_file, or neither.")
	} else if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			diagnostics.AddAttributeError(path.Root("cert_file"), "The client certificate cannot be used", sentence(err.Error()))
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = settings
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// timeoutOf returns the time limit of a call, or 0 for the default of the client.
func timeoutOf(config providerModel, diagnostics *diag.Diagnostics) time.Duration {
	text := valueOr(config.Timeout, "UGS_TIMEOUT")
	if text == "" {
		return 0
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 || timeout > time.Hour {
		diagnostics.AddAttributeError(path.Root("timeout"), "The timeout is not valid",
			"Set timeout or UGS_TIMEOUT to a duration up to 1h, such as 500ms, 5s or 2m.")
	}
	return timeout
}

func contentOf(file, attribute string, diagnostics *diag.Diagnostics) []byte {
	content, err := os.ReadFile(file)
	if err != nil {
		diagnostics.AddAttributeError(path.Root(attribute), "The file cannot be read", sentence(err.Error()))
	}
	return content
}

// configured returns the service that all resources share. If Terraform has not yet called Configure of the provider,
// configured returns nil.
func configured(data any) *service {
	shared, _ := data.(*service)
	return shared
}
