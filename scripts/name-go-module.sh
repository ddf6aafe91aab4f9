#!/usr/bin/env bash
# Copies the module path of release.json to every place in the client and its example that names the module. A fork sets
# the path in release.json, then runs `npm run generate:clients`, which runs this script.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(sed -n 's/^ *"goModule": "\(.*\)",*$/\1/p' release.json)
named=$(sed -n 's|^ *value: \(.*\)/gen$|\1|p' packages/client-go/buf.gen.yaml)
if [ "$module" != "$named" ]; then
  grep -rlF "$named" packages/client-go examples/go-net-http test/go | xargs sed -i.bak "s|$named|$module|g"
  find packages/client-go examples/go-net-http test/go -name '*.bak' -delete
fi
