import { globSync, readFileSync } from "node:fs";
import { PROBLEM_CODES } from "../../../policyd/problems/problem.ts";
import { endOf } from "./source_text.ts";
import { constantsIn, textsOf } from "./texts.ts";

/** Returns the problems of the status that the components' methods `problems` state in words, sorted. */
export function statusProblems(): readonly string[] {
  const files = globSync("policyd/**/*.ts");
  return [...new Set(files.flatMap((file) => problemsIn(readFileSync(file, "utf8"))))].toSorted();
}

/** Returns the texts in the methods `problems` of a file. */
export function problemsIn(source: string): readonly string[] {
  const constants = constantsIn(source);
  const found = [...source.matchAll(/\bproblems(?:ByKind)?\(\): readonly \w+\[\] (\{)/dg)].flatMap((match) => {
    const open = match.indices?.[1]?.[0] ?? 0;
    return sumsIn(source.slice(0, endOf(source, open)), open).flatMap(({ sum, start }) => {
      const known = constantsIn(source.slice(open, start), (name) =>
        /^[A-Z_]+$/.test(name) ? constants(name) : undefined,
      );
      return textsOf(sum, known) ?? [];
    });
  });
  // A text that is a part of another one is not a problem by itself.
  const codes: readonly string[] = PROBLEM_CODES;
  const texts = found.filter((text) => /\p{L}{3}/u.test(text) && !codes.includes(text));
  return texts.filter((text) => !texts.some((other) => other !== text && other.includes(text)));
}

interface Sum {
  readonly sum: string;
  readonly start: number;
}

/** Returns the strings and templates of source after an offset, those that are added up as one expression. */
function sumsIn(source: string, from: number): readonly Sum[] {
  const sums: Sum[] = [];
  let end = 0;
  for (let at = from; at < source.length;) {
    const next = source[at] === '"' || source[at] === "`" ? endOf(source, at) : at + 1;
    if (next > at + 1) {
      const text = source.slice(at, next);
      const last = /^\s*\+\s*$/.test(source.slice(end, at)) ? sums.pop() : undefined;
      sums.push(last === undefined ? { sum: text, start: at } : { ...last, sum: `${last.sum} + ${text}` });
      end = next;
    }
    at = next;
  }
  return sums;
}
