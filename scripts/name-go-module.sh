#!/usr/bin/env bash
# Copies the names of the Go modules and of the Terraform provider from release.json to all files that contain these
# names. To publish under other names, set the names in release.json. Then run `npm run generate:clients`, which runs
# this script.
set -euo pipefail
cd "$(dirname "$0")/.."

# Replaces an old name with the name in release.json. The arguments are KEY OLD_NAME.
rename() {
  local name
  name=$(sed -n "s/^ *\"$1\": \"\(.*\)\",*$/\1/p" release.json)
  [ "$name" != "$2" ] || return 0
  local places=(packages/client-go packages/terraform-provider examples/go-net-http test/go)
  grep -rlF "$2" "${places[@]}" | xargs sed -i.bak "s|$2|$name|g"
  find "${places[@]}" -name '*.bak' -delete
}
rename goModule "$(sed -n 's|^ *value: \(.*\)/gen$|\1|p' packages/client-go/buf.gen.yaml)"
rename terraformModule "$(sed -n 's|^module ||p' packages/terraform-provider/go.mod)"
rename terraformProvider "$(sed -n 's|^const address = "\(.*\)"$|\1|p' packages/terraform-provider/main.go)"
