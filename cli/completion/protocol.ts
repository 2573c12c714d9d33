import type { Completion } from "./candidates.ts";

/** The first word of a command line that asks for the completions of its last word. */
export const COMPLETE = "__complete";

/** Cobra's ShellCompDirectiveDefault: the shell offers files. */
const WITH_FILES = 0;
/** Cobra's ShellCompDirectiveNoFileComp. */
const WITHOUT_FILES = 4;

/**
 * Formats completions as programs made with Cobra print them; kubectl expects this of `kubectl_complete-NAME`, and our
 * scripts read it. Each line is a word, a tab and its description; the last line is a colon and a number.
 */
export function formatCompletion({ candidates, takesFiles }: Completion): string {
  const lines = candidates.map(({ value, description }) => (description === "" ? value : `${value}\t${description}`));
  return `${[...lines, `:${takesFiles ? WITH_FILES : WITHOUT_FILES}`].join("\n")}\n`;
}
