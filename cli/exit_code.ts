/** How a command ends. */
export const ExitCode = {
  /** Allowed, no difference, clean. */
  YES: 0,
  /** Denied, differences, findings. */
  NO: 1,
  /** The command line makes no sense. */
  USAGE: 2,
  /** The question could not be answered: a file cannot be read, an object is invalid, the cluster is away. */
  ERROR: 3,
} as const;

export type ExitCode = (typeof ExitCode)[keyof typeof ExitCode];
