#!/usr/bin/env bash
# Generates the code of the Python and Go clients from proto/. This script needs Python 3.11 and Go. Both programs
# download packages, from PyPI and from the Go module proxy.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/node_modules/.bin:$PATH"

# A virtual environment, which the tests of the Python client use as well. requirements.txt is copied to the environment
# last, so the copy shows that the installation is complete.
python=node_modules/.cache/client-python
if ! cmp -s packages/client-python/requirements.txt "$python/requirements.txt"; then
  rm -rf "$python"
  python3 -m venv "$python"
  "$python/bin/pip" install --quiet --requirement packages/client-python/requirements.txt
  cp packages/client-python/requirements.txt "$python/requirements.txt"
fi
PATH="$PWD/$python/bin:$PATH" buf generate --template packages/client-python/buf.gen.yaml
bash scripts/name-go-module.sh
buf generate --template packages/client-go/buf.gen.yaml

# The gate compares these digests, because the gate has no generators.
for package in packages/client-python packages/client-go; do
  find proto/usergroup proto/google "$package/buf.gen.yaml" -type f | LC_ALL=C sort | xargs sha256sum >"$package/generated-from.sha256"
done
