#!/bin/sh
# Runs the command line from a checkout of its sources, for the pre-commit hooks and the GitHub Action. The first call
# installs the packages into the checkout. It needs Node 24.12 or later and npm.
set -eu
project=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
if ! node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 24 || (major === 24 && minor >= 12) ? 0 : 1)'; then
  echo "drawbridge: Node 24.12 or later is needed to run from the sources; this is $(node --version 2>/dev/null || echo none)" >&2
  exit 3
fi
if [ ! -d "$project/node_modules/commander" ]; then
  (cd "$project" && npm ci --omit=dev --omit=optional --ignore-scripts --no-audit --no-fund >&2)
fi
exec node "$project/cli/main.ts" "$@"
