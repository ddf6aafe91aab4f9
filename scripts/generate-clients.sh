#!/usr/bin/env bash
# Generates the code of the Python and Go clients from proto/. This script needs Python 3.11 and Go. It downloads Python
# packages from PyPI, and Go modules from the Go module proxy.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/node_modules/.bin:$PATH"

# The tests of the Python client use the same virtual environment.
python=node_modules/.cache/client-python
bash scripts/python-environment.sh "$python" packages/client-python/requirements.txt
PATH="$PWD/$python/bin:$PATH" buf generate --template packages/client-python/buf.gen.yaml
bash scripts/name-go-module.sh
buf generate --template packages/client-go/buf.gen.yaml

# The gate has no generators. It compares these digests with the digests of the current sources.
for package in packages/client-python packages/client-go; do
  find proto/usergroup proto/google "$package/buf.gen.yaml" -type f | LC_ALL=C sort | xargs sha256sum >"$package/generated-from.sha256"
done
