#!/bin/sh
# Compares the working tree with a commit of its Git repository: diff_base.sh BASE PATH [OPTION of policy diff …].
# With DRAWBRIDGE_FAIL_ON_CHANGE=1 a difference exits with 1, otherwise with 0.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
base=${1:?a commit to compare with}
path=${2:?a path in the repository}
shift 2
case $path in
  /*)
    echo "drawbridge: $path: expected a path relative to the directory in which this runs" >&2
    exit 3
    ;;
esac
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
commit=$(git rev-parse --verify --quiet --end-of-options "$base^{commit}") || {
  echo "drawbridge: $base is not a commit of this repository; fetch it first (with actions/checkout: fetch-depth: 0)" >&2
  exit 3
}
# A link in the path may lead to manifests anywhere in the tree. An archive would leave out what .gitattributes says.
below=$(git rev-parse --show-prefix)$path
in_old() { GIT_INDEX_FILE="$old/index" GIT_WORK_TREE="$old/tree" git "$@"; }
mkdir "$old/tree"
in_old read-tree "$commit"
in_old ls-files -z -- ":(literal)$below" '*.json' '*.yaml' '*.yml' > "$old/files" || exit 3
in_old checkout-index -z --stdin < "$old/files"
has_manifests() {
  [ -f "$1" ] || [ -L "$1" ] ||
    { [ -d "$1" ] && [ -n "$(find "$1" -name '*.json' -o -name '*.yaml' -o -name '*.yml')" ]; }
}
before=$old/tree/$below
after=$path
# A side without manifests has no objects where the other has some: these are the first or were the last ones.
echo '{ "apiVersion": "v1", "kind": "List", "items": [] }' > "$old/none.json"
if ! has_manifests "$before"; then
  if has_manifests "$after"; then before=$old/none.json; fi
elif ! has_manifests "$after"; then after=$old/none.json; fi
status=0
"$here/run.sh" policy diff "$before" "$after" -R "$@" || status=$?
if [ "$status" = 1 ] && [ "${DRAWBRIDGE_FAIL_ON_CHANGE:-0}" != 1 ]; then exit 0; fi
exit "$status"
