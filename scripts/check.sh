#!/usr/bin/env bash
# The whole gate: generated code up to date, formats, lint, import rules, no cycles, types.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/node_modules/.bin:$PATH"

before=$(find gen -type f -exec sha256sum {} + | sort)
buf generate
after=$(find gen -type f -exec sha256sum {} + | sort)
if [ "$before" != "$after" ]; then
  echo "gen/ was not up to date with proto/: commit what 'npm run generate' wrote" >&2
  exit 1
fi
buf format --diff --exit-code
buf lint
biome check --error-on-warnings .
tsc -p tsconfig.json
echo "the gate is passed"
