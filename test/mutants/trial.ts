import type { Answer, Ran } from "./worker.ts";
import { WorkerEnd, WorkerProcess } from "./worker_process.ts";

/** A mutation and the file that it is of. */
export interface FileMutation {
  readonly file: string;
  readonly id: string;
}

/** Which test noticed a mutation, or why none did. */
export type Fate =
  | { readonly kind: "killed"; readonly by: string }
  | { readonly kind: "survived"; readonly why: string };

/** In milliseconds of the processor: the tests of one mutation, as they took without it; the nearest ones come first. */
const MOST_MILLISECONDS = 10_000;

/** In milliseconds of the processor: tests up to this long are run before the others. */
const QUICK = 50;

/** In seconds of processor time. */
const LONGEST_LOAD = 300;
const LONGEST_RUN = 1800;

/** Test files that are loaded for a mutation of what a module does when it is loaded. */
const NEAREST = 20;

/** Runs tests with one mutation after another, in one process as long as they leave it intact. */
export class Trial implements Disposable {
  readonly #root: string;
  readonly #mutations: readonly FileMutation[];
  readonly #nearest: (file: string) => readonly string[];
  readonly #tests: readonly string[];
  #worker: WorkerProcess | undefined;
  #ran: readonly Ran[] = [];
  #reachedAtLoad: ReadonlySet<number> = new Set();

  /** @param nearest returns the test files that load a file, the nearest one first */
  constructor(root: string, mutations: readonly FileMutation[], nearest: (file: string) => readonly string[]) {
    this.#root = root;
    this.#mutations = mutations;
    this.#nearest = nearest;
    this.#tests = [...new Set(mutations.flatMap(({ file }) => nearest(file)))].sort();
  }

  /**
   * Runs all tests without a mutation.
   *
   * @returns the full titles of those that fail; they judge no mutation
   */
  async begin(): Promise<readonly string[]> {
    const worker = new WorkerProcess();
    this.#worker = worker;
    const { reached } = await worker.ask(this.#load(this.#tests), LONGEST_LOAD);
    this.#reachedAtLoad = new Set(reached);
    const { ran, failed } = await worker.ask({}, LONGEST_RUN);
    this.#ran = ran.filter(({ title }) => !failed.includes(title));
    return failed;
  }

  /** @param number the mutation's place in the list */
  async fate(number: number): Promise<Fate> {
    const judges = this.#judges(number, ({ reached }) => reached.includes(number));
    const fate = await this.#fateInProcess(number, judges);
    return fate.kind === "survived" && this.#reachedAtLoad.has(number) ? this.#fateFromStart(number) : fate;
  }

  async #fateInProcess(number: number, judges: readonly Ran[]): Promise<Fate> {
    if (judges.length === 0) return { kind: "survived", why: "no test reaches it" };
    const isQuick = ({ milliseconds }: Ran): boolean => milliseconds <= QUICK;
    for (const part of [judges.filter(isQuick), judges.filter((test) => !isQuick(test))]) {
      const titles = part.map(({ title }) => title);
      const by = await this.#firstFailure(number, titles, secondsOf(part));
      if (by === undefined) continue;
      if ((await this.#firstFailure(undefined, [by], secondsOf(part))) === undefined) return { kind: "killed", by };
      // This mutation, or an earlier one, has left a trace: only a new process can tell.
      this.#end();
      return { kind: "killed", by: (await this.#firstFailure(number, titles, secondsOf(part))) ?? by };
    }
    return { kind: "survived", why: `${judges.length} tests pass` };
  }

  async #fateFromStart(number: number): Promise<Fate> {
    const nearest = this.#nearest(this.#mutations[number]?.file ?? "").slice(0, NEAREST);
    const judges = this.#judges(number, ({ file }) => nearest.includes(file));
    using worker = new WorkerProcess();
    try {
      const files = [...new Set(judges.map(({ file }) => file))];
      await worker.ask({ ...this.#load(files), on: number }, LONGEST_LOAD);
      const titles = judges.map(({ title }) => title);
      const { failed } = await worker.ask({ on: number, titles }, secondsOf(judges));
      const [by] = failed;
      return by === undefined ? { kind: "survived", why: `${judges.length} tests pass` } : { kind: "killed", by };
    } catch (error) {
      if (error instanceof WorkerEnd) return { kind: "killed", by: wordsOf(error) };
      throw error;
    }
  }

  /** Returns the tests that judge a mutation, as many as may run: those of the nearest files first. */
  #judges(number: number, admits: (test: Ran) => boolean): readonly Ran[] {
    const order = new Map(this.#nearest(this.#mutations[number]?.file ?? "").map((file, index) => [file, index]));
    const place = ({ file }: Ran): number => order.get(file) ?? order.size;
    const tests = this.#ran.filter(admits).sort((a, b) => place(a) - place(b) || a.milliseconds - b.milliseconds);
    let milliseconds = 0;
    return tests.filter((test, index) => {
      milliseconds += test.milliseconds;
      return index === 0 || milliseconds <= MOST_MILLISECONDS;
    });
  }

  async #firstFailure(on: number | undefined, titles: readonly string[], seconds: number): Promise<string | undefined> {
    if (titles.length === 0) return undefined;
    try {
      const { failed } = await this.#run({ titles, ...(on === undefined ? {} : { on }) }, seconds);
      return failed[0];
    } catch (error) {
      if (!(error instanceof WorkerEnd)) throw error;
      this.#end();
      return wordsOf(error);
    }
  }

  async #run(message: { on?: number; titles: readonly string[] }, seconds: number): Promise<Answer> {
    if (this.#worker === undefined) {
      this.#worker = new WorkerProcess();
      await this.#worker.ask(this.#load(this.#tests), LONGEST_LOAD);
    }
    return this.#worker.ask(message, seconds);
  }

  #load(tests: readonly string[]): { root: string; tests: readonly string[]; numbers: Numbers } {
    const numbers: Numbers = {};
    for (const [number, { file, id }] of this.#mutations.entries()) (numbers[file] ??= {})[id] = number;
    return { root: this.#root, tests, numbers };
  }

  #end(): void {
    this.#worker?.[Symbol.dispose]();
    this.#worker = undefined;
  }

  [Symbol.dispose](): void {
    this.#end();
  }
}

type Numbers = Record<string, Record<string, number>>;

/** Returns the processor time that tests may take with a mutation. */
function secondsOf(tests: readonly Ran[]): number {
  return 3 + (4 * tests.reduce((sum, { milliseconds }) => sum + milliseconds, 0)) / 1000;
}

function wordsOf({ message }: WorkerEnd): string {
  return `the end of its process (${message.trim().split("\n").at(-1)})`;
}
