#!/bin/sh
# Compares the working tree with a commit of its Git repository: diff_base.sh BASE PATH [OPTION of policy diff …].
# With DRAWBRIDGE_FAIL_ON_CHANGE=1 a difference exits with 1, otherwise with 0.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
base=${1:?a commit to compare with}
path=${2:?a path in the repository}
shift 2
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
commit=$(git rev-parse --verify --quiet --end-of-options "$base^{commit}") || {
  echo "drawbridge: $base is not a commit of this repository; fetch it first (with actions/checkout: fetch-depth: 0)" >&2
  exit 3
}
git archive --format=tar "$commit" -- "$path" | tar -x -C "$old"
status=0
"$here/run.sh" policy diff "$old/$path" "$path" -R "$@" || status=$?
if [ "$status" = 1 ] && [ "${DRAWBRIDGE_FAIL_ON_CHANGE:-0}" != 1 ]; then exit 0; fi
exit "$status"
