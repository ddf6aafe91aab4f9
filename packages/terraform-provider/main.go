// Command terraform-provider-ugs is the Terraform and OpenTofu provider of the User Group Service.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
)

// The source address of the provider in required_providers. `npm run generate:clients` copies this address from
// release.json.
const address = "registry.example.com/user-group-service/ugs"

func main() {
	debug := flag.Bool("debug", false, "wait for a debugger, and print the value of TF_REATTACH_PROVIDERS")
	flag.Parse()
	err := providerserver.Serve(context.Background(), newProvider, providerserver.ServeOpts{Address: address, Debug: *debug})
	if err != nil {
		log.Fatal(err)
	}
}
