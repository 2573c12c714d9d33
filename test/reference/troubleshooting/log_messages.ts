import { globSync, readFileSync } from "node:fs";
import { callsOf, functionAround } from "./calls.ts";
import { itemsOf } from "./source_text.ts";
import { constantsIn, type Lookup, textsOf } from "./texts.ts";

/** Returns all warnings and errors of the daemon's log, sorted. @throws Error as {@link messagesIn} */
export function logMessages(): readonly string[] {
  const files = globSync("policyd/**/*.ts");
  const words = files.flatMap((file) => [...messagesIn(file, readFileSync(file, "utf8"))]);
  return [...new Set(words)].toSorted();
}

/**
 * Yields the warnings and errors that a file logs: literals, constants of the file, what callers pass to a function that
 * logs its parameter, and the message of each list of problems (NodeProblems).
 *
 * @throws Error naming the place of any other message
 */
export function* messagesIn(file: string, source: string): Generator<string> {
  for (const match of source.matchAll(/\blogger\??\s*\.(?:warn|error)(\()/dg)) {
    const [message = ""] = itemsOf(source, match.indices?.[1]?.[0] ?? 0);
    const texts = messageTexts(message, source, match.index);
    if (texts === undefined) {
      const line = source.slice(0, match.index).split("\n").length;
      throw new Error(
        `${file}:${line}: the message ${message} is not a text; expected a literal or a constant of the file`,
      );
    }
    yield* texts;
  }
  yield* problemMessagesIn(source);
}

/** Yields what the lists of problems that a file makes log. */
function* problemMessagesIn(source: string): ReturnType<typeof messagesIn> {
  for (const match of source.matchAll(/\bnew NodeProblems(\()/dg)) {
    const [, , message = ""] = itemsOf(source, match.indices?.[1]?.[0] ?? 0);
    const words = textsOf(message, constantsIn(source))?.[0];
    if (words === undefined) throw new Error(`NodeProblems: ${message} is not a text`);
    yield words;
  }
}

function messageTexts(expression: string, source: string, offset: number): readonly string[] | undefined {
  const constants = constantsIn(source);
  // Of an object of messages any one may be logged.
  const table = /^(\w+)\[/.exec(expression)?.[1];
  if (table !== undefined) return membersOf(table, source, constants);
  const around = functionAround(source, offset);
  const calls = around === undefined ? [] : callsOf(around, source);
  const lookup: Lookup = (name) => {
    if (around?.parameters.includes(name) !== true) return constants(name);
    return calls.flatMap(({ argumentOf }) => textsOf(argumentOf.get(name) ?? "", constants) ?? []);
  };
  return textsOf(expression, lookup);
}

function membersOf(name: string, source: string, lookup: Lookup): readonly string[] {
  const start = source.search(new RegExp(String.raw`\bconst ${name} = \{`));
  const members = start < 0 ? [] : itemsOf(source, source.indexOf("{", start));
  return members.flatMap((member) => textsOf(member.slice(member.indexOf(": ") + 1), lookup) ?? []);
}
