#!/usr/bin/env bash
# Creates a Python virtual environment if it is missing, or if its requirements have changed:
#
#   scripts/python-environment.sh FOLDER REQUIREMENTS
set -euo pipefail

if cmp -s "$2" "$1/requirements.txt"; then exit; fi
rm -rf "$1"
python3 -m venv "$1"
"$1/bin/pip" install --quiet --requirement "$2"
# Copy the requirements last, so that the next run repeats an interrupted installation.
cp "$2" "$1/requirements.txt"
