#!/bin/sh
# Runs the step of action.yml. Its inputs are environment variables, so that the shell does not interpret them.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
summary=${GITHUB_STEP_SUMMARY:-/dev/null}
report=${RUNNER_TEMP:-/tmp}/drawbridge-report
# The runner takes lines of either stream as commands ("::add-mask::"), and names of files in a pull request may be such
# lines: until the end of the step it obeys none but the one that nobody can guess.
if [ "${GITHUB_ACTIONS:-}" = true ]; then
  token=drawbridge-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  exec 2>&1
  echo "::stop-commands::$token"
  trap 'echo; echo "::$token::"' EXIT
fi
set --
while IFS= read -r argument; do
  if [ -n "$argument" ]; then set -- "$@" "$argument"; fi
done <<END
${INPUT_ARGS:-}
END
status=0
case "${INPUT_COMMAND:-}" in
  lint)
    report=$report.sarif
    if [ -n "${ACTION_REPOSITORY:-}" ]; then
      set -- "$@" --documentation "${GITHUB_SERVER_URL:-https://github.com}/$ACTION_REPOSITORY/blob/${ACTION_REF:-HEAD}/docs/lint.md"
    fi
    "$here/run.sh" policy lint -f "$INPUT_PATH" -R "$@" -o sarif > "$report" || status=$?
    "$here/run.sh" policy lint -f "$INPUT_PATH" -R "$@" || true
    ;;
  diff)
    report=$report.md
    DRAWBRIDGE_FAIL_ON_CHANGE=1 "$here/diff_base.sh" "$INPUT_BASE" "$INPUT_PATH" "$@" -o md > "$report" || status=$?
    cat "$report"
    cat "$report" >> "$summary"
    if [ "$status" = 1 ] && [ "${INPUT_FAIL_ON_CHANGE:-false}" != true ]; then status=0; fi
    ;;
  test)
    report=$report.xml
    "$here/run.sh" policy test "$INPUT_EXPECTATIONS" -f "$INPUT_PATH" -R "$@" -o junit > "$report" || status=$?
    "$here/run.sh" policy test "$INPUT_EXPECTATIONS" -f "$INPUT_PATH" -R "$@" || true
    ;;
  *)
    echo "drawbridge: command is '${INPUT_COMMAND:-}'; expected lint, diff or test" >&2
    exit 2
    ;;
esac
if [ -n "${GITHUB_OUTPUT:-}" ]; then echo "report=$report" >> "$GITHUB_OUTPUT"; fi
exit "$status"
