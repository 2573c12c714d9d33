/** A person mends an object long before this many are read; a hostile one holds a problem in every few bytes. */
export const MOST_PROBLEMS = 100;

/** What is wrong with one object, in words: the first {@link MOST_PROBLEMS}, and how many others there are. */
export class ProblemList {
  readonly #first: string[] = [];
  #others = 0;

  tell(problem: string): void {
    if (this.#first.length < MOST_PROBLEMS) this.#first.push(problem);
    else this.#others++;
  }

  /**
   * In the order in which they were told; the last says how many others there are, if there are any.
   *
   * @param object what that one begins with, where the others name the object, too
   */
  all(object?: string): readonly string[] {
    if (this.#others === 0) return this.#first;
    return [...this.#first, `${object === undefined ? "" : `${object}: `}${this.#others} more problems`];
  }
}
