/** The words for a change: between two sides of files, or as the effect of a change. */
export interface Words {
  readonly added: string;
  readonly removed: string;
}

export const DIFF_WORDS: Words = { added: "added", removed: "removed" };
