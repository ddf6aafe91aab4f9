#!/usr/bin/env bash
# Writes the generated code of the clients in Python and Go from proto/. Needs Python 3.11 and PyPI, Go and its module proxy.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/node_modules/.bin:$PATH"

# The tests of the package use this environment too, and know by the copy of its requirements that it is whole.
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

# By these the gate knows, without the generators, whether the code is of these protos.
for package in packages/client-python packages/client-go; do
  find proto/usergroup proto/google "$package/buf.gen.yaml" -type f | LC_ALL=C sort | xargs sha256sum >"$package/generated-from.sha256"
done
