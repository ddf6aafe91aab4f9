#!/usr/bin/env bash
# Runs all checks of the gate. The gate checks generated code, breaking changes of the protos, format, lint, import
# rules, import cycles and types. It also fails if it finds a forbidden phrase, or a test that belongs to no project of
# vitest.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/node_modules/.bin:$PATH"

# Prints the digests of the files that 'npm run generate' writes.
generated() {
  find gen packages/transport/test/gen test/fixtures/viewer-sessions.json README.md deno.json deploy/helm/values.schema.json -type f -exec sha256sum {} + | sort
}
before=$(generated)
npm run --silent generate
if ! changed=$(diff <(echo "$before") <(generated) | sed -n 's/^[<>] \w* *//p' | sort -u); then
  echo "$changed" >&2
  echo "the files above did not match proto/, docs/api.md or src/config/settings.ts; 'npm run generate' has updated the files: commit them" >&2
  exit 1
fi
# The service and the transport's tests are separate buf modules.
for house in . packages/transport/test; do
  pushd "$house" >/dev/null
  buf format --diff --exit-code
  buf lint
  popd >/dev/null
done
# npm does not install the code generators of the Python and Go clients, so the gate cannot generate this code again.
# Instead, the gate checks that the sources have not changed since the last generation. A test of `npm run test:all`
# runs the generators.
if ! changed=$(cat packages/client-*/generated-from.sha256 | sha256sum --check --quiet 2>&1); then
  echo "$changed" >&2
  echo "the code of the clients is out of date: run 'npm run generate:clients' and commit the changed files" >&2
  exit 1
fi
# Turn off telemetry and the update check. Hide warnings about old versions of Node.
if ! lint=$(REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true \
  redocly lint --config scripts/openapi/redocly.yaml gen/openapi.json 2>&1); then
  echo "$lint" >&2
  exit 1
fi
buf breaking --against proto/released.binpb
biome check --error-on-warnings .
node scripts/check-imports.js
listed=$(NO_COLOR=1 vitest list --filesOnly | sed 's/^\[[a-z]*\] //' | LC_ALL=C sort -u)
written=$(find src packages scripts test -name '*.test.ts' -not -path '*/node_modules/*' | LC_ALL=C sort)
if lost=$(LC_ALL=C comm -13 <(echo "$listed") <(echo "$written") | grep .); then
  echo "$lost" >&2
  echo "no project of vitest.config.ts contains the test files above, so these tests would never run: add the files to a project" >&2
  exit 1
fi
tsc -p tsconfig.json
node scripts/check-words.js
echo "the gate is passed"
