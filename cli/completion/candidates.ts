import type { Command, Option } from "commander";
import { PROTOCOLS } from "../../objects/protocol.ts";

/** A word that may come next. */
export interface Candidate {
  readonly value: string;
  readonly description: string;
}

/** The words that may come next on a command line. */
export interface Completion {
  readonly candidates: readonly Candidate[];
  /** Whether a file name may come next. */
  readonly takesFiles: boolean;
}

const NOTHING: Completion = { candidates: [], takesFiles: false };
const FILES: Completion = { candidates: [], takesFiles: true };

/** The state of the command line after some of its words. */
interface State {
  readonly command: Command;
  /** An option that still takes a value. */
  readonly waiting: Option | undefined;
  /** The number of positional arguments so far; after `--` every word is one. */
  readonly positional: number;
  readonly isBehindOptions: boolean;
}

/**
 * Returns the completions of the last word, which may be empty or incomplete.
 *
 * It knows no command by name. Choices are those of the options and arguments; an option whose value is called `path`
 * takes files, and so does an argument without choices; `--port` takes ports.
 */
export function complete(program: Command, words: readonly string[]): Completion {
  const last = words.at(-1) ?? "";
  const { command, waiting, positional, isBehindOptions } = words
    .slice(0, -1)
    .reduce(after, { command: program, waiting: undefined, positional: 0, isBehindOptions: false });
  const [, name = "", begun = ""] = /^(--[^=]+)=(.*)$/s.exec(last) ?? [];
  const option = isBehindOptions ? undefined : optionOf(command, name);
  if (option !== undefined) return prefixed(`${name}=`, valuesFor(option, begun));
  if (last.startsWith("-") && last !== "-" && !isBehindOptions) return starting(last, optionsOf(command));
  if (waiting !== undefined) return valuesFor(waiting, last);
  if (command.commands.length > 0) return starting(last, commandsOf(command));
  const argument = command.registeredArguments[positional];
  if (argument === undefined) return NOTHING;
  return argument.argChoices === undefined ? FILES : starting(last, argument.argChoices.map(plain));
}

function after(state: State, word: string): State {
  const { command, waiting, positional, isBehindOptions } = state;
  if (word.startsWith("-") && word !== "-" && !isBehindOptions) {
    if (word === "--") return { ...state, waiting: undefined, isBehindOptions: true };
    const option = optionOf(command, word);
    const takesValue = option !== undefined && (option.required || option.optional);
    return { ...state, waiting: takesValue ? option : undefined };
  }
  if (waiting !== undefined) return { ...state, waiting: waiting.variadic ? waiting : undefined };
  const next = command.commands.find((one) => one.name() === word || one.aliases().includes(word));
  return next === undefined ? { ...state, positional: positional + 1 } : { ...state, command: next };
}

function optionOf(command: Command, name: string): Option | undefined {
  return command.options.find(({ long, short }) => name !== "" && (long === name || short === name));
}

function valuesFor({ argChoices, flags, long }: Option, begun: string): Completion {
  if (argChoices !== undefined) return starting(begun, argChoices.map(plain));
  if (long === "--port") return portsFor(begun);
  return /[<[]path/.test(flags) ? FILES : NOTHING;
}

/** Completes the protocol of the last port in a list. */
function portsFor(begun: string): Completion {
  const [, before] = /^((?:.*,)?\d+)(?:\/\w*)?$/.exec(begun) ?? [];
  return before === undefined
    ? NOTHING
    : starting(
        begun,
        PROTOCOLS.map((protocol) => plain(`${before}/${protocol}`)),
      );
}

function optionsOf(command: Command): readonly Candidate[] {
  const visible = command.createHelp().visibleOptions(command);
  return visible.flatMap(({ long, description }) => (long === undefined ? [] : [{ value: long, description }]));
}

function commandsOf(command: Command): readonly Candidate[] {
  return command.commands.map((one) => ({ value: one.name(), description: one.description() }));
}

function starting(begun: string, candidates: readonly Candidate[]): Completion {
  return { candidates: candidates.filter(({ value }) => value.startsWith(begun)), takesFiles: false };
}

function prefixed(prefix: string, { candidates, takesFiles }: Completion): Completion {
  return { candidates: candidates.map((one) => ({ ...one, value: prefix + one.value })), takesFiles };
}

function plain(value: string): Candidate {
  return { value, description: "" };
}
