import assert from "node:assert/strict";
import type { ProgramResult, Programs } from "../../../cli/input/programs/programs.ts";

export const printed = (output: string): ProgramResult => ({ type: "printed", output });

/** Programs of the user that answer as a test says. */
export class ScriptedPrograms implements Programs {
  /** The command lines that were run. */
  readonly called: string[] = [];
  readonly #answerTo: (words: readonly string[]) => ProgramResult | string | undefined;

  /** @param answers the result or the output by a word of the command line; a program without an answer is missing */
  constructor(
    answers:
      | Readonly<Record<string, ProgramResult | string>>
      | ((words: readonly string[]) => ProgramResult | string | undefined),
  ) {
    this.#answerTo =
      typeof answers === "function" ? answers : (words) => answers[words.find((word) => word in answers) ?? ""];
  }

  /** Calls what {@link onStop} was given, as a signal does. */
  stop = (): void => {};

  run(command: string, args: readonly string[], _?: unknown, input = ""): Promise<ProgramResult> {
    const words = [command, ...args, ...(input === "" ? [] : [input])];
    this.called.push(words.join(" "));
    const answer = this.#answerTo(words) ?? { type: "missing" };
    return Promise.resolve(typeof answer === "string" ? printed(answer) : answer);
  }

  onStop(stop: () => void): () => void {
    this.stop = stop;
    return () => (this.stop = () => {});
  }

  endAll(): Promise<void> {
    return Promise.resolve();
  }

  /** Gives the lines of the answer, and then ends as a lost connection does. */
  async follow(command: string, args: readonly string[], onLine: (line: string) => void): Promise<ProgramResult> {
    const result = await this.run(command, args);
    if (result.type !== "printed") return assert.fail(args.join(" "));
    for (const line of result.output.split("\n").slice(0, -1)) onLine(line);
    return { type: "failed", how: "exit code 1", words: "connection lost" };
  }
}
