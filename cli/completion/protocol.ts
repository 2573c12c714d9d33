import type { Completion } from "./candidates.ts";

/** The first word of a command line that asks what its last word can become. */
export const COMPLETE = "__complete";

/** Cobra's ShellCompDirectiveDefault: the shell offers files. */
const WITH_FILES = 0;
/** Cobra's ShellCompDirectiveNoFileComp. */
const WITHOUT_FILES = 4;

/**
 * Completions as programs made with Cobra print them, which is what kubectl expects of `kubectl_complete-NAME` and our scripts
 * read: one in each line, behind a tab what it is, and at last a colon and a number.
 */
export function formatCompletion({ candidates, takesFiles }: Completion): string {
  const lines = candidates.map(({ value, description }) => (description === "" ? value : `${value}\t${description}`));
  return `${[...lines, `:${takesFiles ? WITH_FILES : WITHOUT_FILES}`].join("\n")}\n`;
}
