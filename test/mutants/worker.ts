import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import Mocha from "mocha";
import { mutable } from "./mutations.ts";
import { switchOn, takeReached } from "./switch.ts";
import { type Numbered, switched } from "./switched.ts";

/** Asks for a load of test files; the first message to a worker. */
export interface Load {
  readonly root: string;
  readonly tests: readonly string[];
  /** The numbers of mutations by file and id. */
  readonly numbers: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** The mutation that is on from the start. */
  readonly on?: number;
}

/** Asks for a run of tests. */
export interface Run {
  readonly on?: number;
  /** The tests' full titles; all tests if absent. A run of some ends with the first failure. */
  readonly titles?: readonly string[];
}

/** A test that has run, with the mutations whose places it and its hooks reached. */
export interface Ran {
  readonly title: string;
  readonly file: string;
  /** Of the processor, since a busy machine makes every test long. */
  readonly milliseconds: number;
  readonly reached: readonly number[];
}

/** The answer to either message: for a load, what it reached. */
export interface Answer {
  readonly reached: readonly number[];
  readonly ran: readonly Ran[];
  /** The full titles of tests and hooks that failed. */
  readonly failed: readonly string[];
}

const SWITCH = new URL("./switch.ts", import.meta.url).href;

/** In milliseconds. A test that waits in vain costs this much, and one on a busy machine must not fail. */
const TIMEOUT = 120_000;

const { EVENT_HOOK_END, EVENT_TEST_BEGIN, EVENT_TEST_END, EVENT_TEST_FAIL } = Mocha.Runner.constants;

class Titles extends RegExp {
  readonly #titles: ReadonlySet<string>;

  constructor(titles: readonly string[]) {
    super("");
    this.#titles = new Set(titles);
  }

  override test(title: string): boolean {
    return this.#titles.has(title);
  }
}

// A mutant's fate must not depend on luck.
fc.configureGlobal({ seed: 1 });
const mocha = new Mocha({ timeout: TIMEOUT, reporter: Mocha.reporters.Base });
mocha.cleanReferencesAfterRun(false);

process.on("message", (message: Load | Run) => {
  switchOn(message.on);
  void ("root" in message ? load(message) : run(message)).then((answer) => process.send?.(answer));
});

async function load({ root, tests, numbers }: Load): Promise<Answer> {
  process.chdir(root);
  const files = new Map(Object.keys(numbers).map((file) => [pathToFileURL(path.join(root, file)).href, file]));
  registerHooks({
    load(url, context, next) {
      const file = files.get(url);
      if (file === undefined) return next(url, context);
      const code = mutable(readFileSync(path.join(root, file), "utf8"));
      const numbered = code.mutations.flatMap((mutation): readonly Numbered[] => {
        const number = numbers[file]?.[mutation.id];
        return number === undefined ? [] : [{ number, mutation }];
      });
      return { format: "module", source: switched(code, numbered, SWITCH), shortCircuit: true };
    },
  });
  for (const test of tests) mocha.addFile(path.join(root, test));
  await mocha.loadFilesAsync();
  return { reached: takeReached(), ran: [], failed: [] };
}

function run({ titles }: Run): Promise<Answer> {
  takeReached();
  setBail(mocha.suite, titles !== undefined);
  mocha.grep(titles === undefined ? /(?:)/ : new Titles(titles));
  const failed: string[] = [];
  const ran: { readonly test: Mocha.Test; readonly reached: number[]; milliseconds: number }[] = [];
  /** The mutations that hooks reached which run once for all tests of a suite. */
  const ofSuites = new Map<Mocha.Suite | undefined, number[]>();
  return new Promise((resolve) => {
    mocha
      .run(() => resolve({ reached: [], ran: ran.map((one) => ranOf(one, ofSuites)), failed }))
      .on(EVENT_TEST_BEGIN, (test) => ran.push({ test, reached: [], milliseconds: -processorMilliseconds() }))
      .on(EVENT_TEST_END, () => {
        const last = ran.at(-1);
        last?.reached.push(...takeReached());
        if (last !== undefined) last.milliseconds += processorMilliseconds();
      })
      .on(EVENT_HOOK_END, (hook) => {
        const ofSuite = ofSuites.get(hook.parent) ?? [];
        ofSuites.set(hook.parent, ofSuite);
        const reached = hook.title.includes(' all" hook') ? ofSuite : ran.at(-1)?.reached;
        reached?.push(...takeReached());
      })
      .on(EVENT_TEST_FAIL, (test) => failed.push(test.fullTitle()));
  });
}

function setBail(suite: Mocha.Suite, bail: boolean): void {
  suite.bail(bail);
  for (const inner of suite.suites) setBail(inner, bail);
}

function processorMilliseconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

function ranOf(
  {
    test,
    reached,
    milliseconds,
  }: { readonly test: Mocha.Test; readonly reached: readonly number[]; milliseconds: number },
  ofSuites: ReadonlyMap<Mocha.Suite | undefined, readonly number[]>,
): Ran {
  const all = new Set(reached);
  for (let suite = test.parent; suite !== undefined; suite = suite.parent)
    for (const number of ofSuites.get(suite) ?? []) all.add(number);
  const file = path.relative(process.cwd(), test.file ?? "");
  return { title: test.fullTitle(), file, milliseconds, reached: [...all] };
}
