/** The largest number of problems kept of an object. People need fewer; a hostile object has one in every few bytes. */
export const MOST_PROBLEMS = 100;

/** The problems of one object, in words: the first {@link MOST_PROBLEMS}, and the number of the others. */
export class ProblemList {
  readonly #first: string[] = [];
  #others = 0;

  tell(problem: string): void {
    if (this.#first.length < MOST_PROBLEMS) this.#first.push(problem);
    else this.#others++;
  }

  /**
   * Returns the problems in the order in which they were added; if there are more, the last text gives their number.
   *
   * @param object the object's name, with which the last text begins if the other texts begin with it
   */
  all(object?: string): readonly string[] {
    if (this.#others === 0) return this.#first;
    return [...this.#first, `${object === undefined ? "" : `${object}: `}${this.#others} more problems`];
  }
}
