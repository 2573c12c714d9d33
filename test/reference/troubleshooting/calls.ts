import { itemsOf } from "./source_text.ts";

/** The arguments of one call of a function, by the names of its parameters. */
export interface Call {
  /** Offset of the function's name. */
  readonly index: number;
  readonly argumentOf: ReadonlyMap<string, string>;
}

/** A function or a method in source. */
interface FunctionHead {
  readonly name: string;
  readonly parameters: readonly string[];
  /** Offset of the function's name. */
  readonly index: number;
}

const HEAD =
  /(?:(?:function\*?|const|async) +|(?<=\n {2}(?:static )?))(#?\w+)(?: = (?:async )?)?(\()(?=[^;]*?\)(?:: [^;{]+?)?(?: =>)? [{(])/g;

/** Returns the last function whose head begins before an offset of source. */
export function functionAround(source: string, offset: number): FunctionHead | undefined {
  return functionsIn(source).findLast(({ index }) => index < offset);
}

/** Returns every call of a function in the source that defines it. */
export function callsOf({ name, parameters, index }: FunctionHead, source: string): readonly Call[] {
  // A name after a dot belongs to something else, unless the dots spread the result.
  const pattern = new RegExp(String.raw`(?<![\w#]|(?<!\.\.)\.)(?:this\.)?${name}(\()`, "gd");
  return [...source.matchAll(pattern)]
    .filter((match) => match.index !== index)
    .map((match) => {
      const values = itemsOf(source, match.indices?.[1]?.[0] ?? 0);
      return { index: match.index, argumentOf: new Map(parameters.map((one, at) => [one, values[at] ?? ""])) };
    });
}

function functionsIn(source: string): readonly FunctionHead[] {
  return [...source.matchAll(new RegExp(HEAD, "gd"))].map((match) => ({
    name: match[1] ?? "",
    index: match.indices?.[1]?.[0] ?? 0,
    parameters: itemsOf(source, match.indices?.[2]?.[0] ?? 0).map((item) => item.replace(/[?:=][\s\S]*$/, "").trim()),
  }));
}
