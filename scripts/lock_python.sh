#!/usr/bin/env bash
# Writes requirements.lock anew from pyproject.toml: every package pinned with its hashes, no registry named.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools"
"$tools/bin/pip" install --quiet uv
"$tools/bin/uv" pip compile pyproject.toml --extra local --group dev --universal --python-version 3.11 \
    --generate-hashes --no-emit-index-url --no-header --quiet --output-file requirements.lock "$@"
echo "requirements.lock: $(grep -c '==' requirements.lock) packages"
