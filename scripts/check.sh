#!/usr/bin/env bash
# The whole gate: generated code up to date, no break with the released protos, formats, lint, import rules, no cycles,
# types.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/node_modules/.bin:$PATH"

# The service has one buf module, the transport's tests have another.
for house in . packages/transport/test; do
  pushd "$house" >/dev/null
  before=$(find gen -type f -exec sha256sum {} + | sort)
  buf generate
  after=$(find gen -type f -exec sha256sum {} + | sort)
  if [ "$before" != "$after" ]; then
    echo "$house/gen was not up to date with $house/proto: commit what 'npm run generate' wrote" >&2
    exit 1
  fi
  buf format --diff --exit-code
  buf lint
  popd >/dev/null
done
buf breaking --against proto/released.binpb
biome check --error-on-warnings .
tsc -p tsconfig.json
echo "the gate is passed"
