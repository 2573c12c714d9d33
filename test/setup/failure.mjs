/**
 * An expected failure of the set-up: its message gives the cause and the way out, and is printed without a stack trace.
 */
export class SetupFailure extends Error {
  /** @override */
  name = "SetupFailure";
}

/**
 * Prints one line of progress. It goes to stderr, so that a task's own output on stdout stays clean.
 *
 * @param {string} line
 */
export function say(line) {
  process.stderr.write(`setup: ${line}\n`);
}
