import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable } from "../../../objects/printable.ts";

/** Runs programs of the user's machine, such as those that print manifests. */
export interface Programs {
  /** Runs a program found in PATH, without a shell, until it ends or reaches a bound. @param input its standard input */
  run(command: string, args: readonly string[], bounds: ProgramBounds, input?: string): Promise<ProgramResult>;
  /**
   * Runs it likewise and passes on each line as it is printed, without its end. A line of more than
   * {@link LONGEST_FOLLOWED} ends the program; so does an error of `onLine`, which the promise then has.
   */
  follow(command: string, args: readonly string[], onLine: (line: string) => void): Promise<ProgramResult>;
  /** Ends the programs that still run. */
  endAll(): Promise<void>;
  /** Calls a function for signals that would end this process. @returns a function that undoes it */
  onStop(stop: () => void): () => void;
}

/** The signals by which users and service managers stop a program. */
export const STOPPING = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The most characters in a line of a program that is followed. */
export const LONGEST_FOLLOWED = 65_536;

export interface ProgramBounds {
  readonly milliseconds: number;
  /** The most bytes of its standard output. */
  readonly bytes: number;
}

/** The result of running a program. */
export type ProgramResult =
  | { readonly type: "printed"; readonly output: string }
  /** PATH has no such program. */
  | { readonly type: "missing" }
  /**
   * `how` is "exit code 1", "signal SIGSEGV" or the system's message; `words` is the end of its standard error, and
   * `output` what it printed before.
   */
  | { readonly type: "failed"; readonly how: string; readonly words: string; readonly output?: string }
  | { readonly type: "too long" }
  | { readonly type: "too much" };

/** helm takes a few seconds for a chart with hundreds of objects; kustomize first clones a remote base. */
const SECONDS = 60;
const MEBIBYTES = 64;
export const BOUNDS: ProgramBounds = Object.freeze({ milliseconds: SECONDS * 1000, bytes: MEBIBYTES * 1024 * 1024 });
const MOST_LINES = 5;

/** The options of `--helm` besides the chart. */
export interface HelmOptions {
  readonly namespace: string | undefined;
  readonly values: readonly string[];
}

/** A command that may give the output. */
export interface Attempt {
  readonly command: string;
  readonly args: readonly string[];
  readonly input?: string;
}

/**
 * Renders a kustomization with the user's `kustomize`, or else with `kubectl kustomize`.
 *
 * @throws DrawbridgeError ERR_INPUT where both are missing, or the one found fails or reaches a bound
 */
export function kustomized(programs: Programs, directory: string): Promise<string> {
  return printedBy(programs, "--kustomize", "kustomize (https://kustomize.io) or kubectl", [
    { command: "kustomize", args: ["build", "--", directory] },
    { command: "kubectl", args: ["kustomize", "--", directory] },
  ]);
}

/**
 * Renders a chart with the user's `helm`, without its tests.
 *
 * @param chart a directory, an archive or whatever else helm takes
 * @throws DrawbridgeError ERR_INPUT where helm is missing, fails or reaches a bound
 */
export function helmTemplate(programs: Programs, chart: string, { namespace, values }: HelmOptions): Promise<string> {
  const options = [
    "--skip-tests",
    ...(namespace === undefined ? [] : [`--namespace=${namespace}`]),
    ...values.map((file) => `--values=${file}`),
  ];
  return printedBy(programs, "--helm", "helm (https://helm.sh)", [
    { command: "helm", args: ["template", ...options, "--", chart] },
  ]);
}

/**
 * Returns the output of the first of some programs that is installed.
 *
 * @param option the option of the command line, and `names` the programs, for messages
 * @param expected the expected output, in one word
 * @throws DrawbridgeError ERR_INPUT where none is installed, or the one found fails or reaches a bound
 */
export async function printedBy(
  programs: Programs,
  option: string,
  names: string,
  attempts: readonly Attempt[],
  { expected, otherwise } = { expected: "manifests", otherwise: "give rendered manifests with -f" },
): Promise<string> {
  for (const { command, args, input } of attempts) {
    const line = [command, ...args].join(" ");
    const result = await programs.run(command, args, BOUNDS, input);
    switch (result.type) {
      case "printed":
        return result.output;
      case "missing":
        continue;
      case "failed":
        throw failure(`${line}: it ended with ${result.how}`, result.words);
      case "too long":
        throw failure(
          `${line}: no end within ${SECONDS} seconds, so it was stopped; run it yourself, and ${otherwise}`,
        );
      case "too much":
        throw failure(`${line}: it printed more than ${MEBIBYTES} MiB; expected ${expected}`);
    }
  }
  throw failure(`${option} runs your own ${names}, which is not in PATH: install it, or ${otherwise}`);
}

/**
 * Passes on what a program prints, line by line, for as long as it runs.
 *
 * @throws DrawbridgeError ERR_INPUT when it ends, with any exit code
 */
export async function followed(
  programs: Programs,
  { command, args }: Attempt,
  onLine: (line: string) => void,
): Promise<never> {
  const line = [command, ...args].join(" ");
  const result = await programs.follow(command, args, onLine);
  if (result.type === "missing") throw failure(`${command} is not in PATH: install it`);
  if (result.type === "failed") throw failure(`${line}: it ended with ${result.how}`, result.words);
  if (result.type === "too much") throw failure(`${line}: a line of more than ${LONGEST_FOLLOWED} characters`);
  throw failure(`${line}: it has ended; expected it to go on until it is stopped`);
}

function failure(message: string, words = ""): DrawbridgeError {
  const lines = words
    .trim()
    .split("\n")
    .slice(-MOST_LINES)
    .filter((line) => line !== "");
  return new DrawbridgeError("ERR_INPUT", [message, ...lines].map(printable).join("\n    "));
}
