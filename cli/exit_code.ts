/** The exit codes of a command. */
export const ExitCode = {
  /** Allowed, no difference, clean. */
  YES: 0,
  /** Denied, differences, findings. */
  NO: 1,
  /** The command line is wrong. */
  USAGE: 2,
  /** The question could not be answered: an unreadable file, an invalid object, or a cluster that does not answer. */
  ERROR: 3,
} as const;

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];
