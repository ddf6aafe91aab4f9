#!/usr/bin/env bash
# Writes the module path in packages/client-go/go.mod wherever the client and its example name the module.
# A release sets the path in that go.mod, and runs `npm run generate:clients`, which runs this and generates the code.
set -euo pipefail
cd "$(dirname "$0")/.."

module=$(sed -n 's/^module //p' packages/client-go/go.mod)
named=$(sed -n 's|^ *value: \(.*\)/gen$|\1|p' packages/client-go/buf.gen.yaml)
if [ "$module" != "$named" ]; then
  grep -rlF "$named" packages/client-go examples/go-net-http test/go | xargs sed -i.bak "s|$named|$module|g"
  find packages/client-go examples/go-net-http test/go -name '*.bak' -delete
fi
