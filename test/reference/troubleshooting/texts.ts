import { endOf, splitSource, statementAt } from "./source_text.ts";

/** Stands for a value that is known only when the program runs. */
export const VALUE = "…";

/** Returns the texts that a name or a path such as `TUNNEL.port` stands for; undefined where they are unknown. */
export type Lookup = (name: string) => readonly string[] | undefined;

const NAME = /^[A-Za-z_$][\w$.]*$/;

/**
 * Returns every text that an expression of TypeScript can be, with {@link VALUE} for each unknown part; undefined for an
 * expression that is not a text: neither string nor template, nor a choice or a sum of them, nor a known name.
 */
export function textsOf(expression: string, lookup: Lookup): readonly string[] | undefined {
  const source = expression.trim().replace(/\s+as const$/, "");
  const inner = insideOfParentheses(source);
  if (inner !== undefined) return textsOf(inner, lookup);
  const [left = "", ...right] = splitSource(source, /\s\?\?\s/y);
  // An empty text stands only for a value that is missing.
  if (right.length > 0) return textsOf(left, lookup) ?? nonempty(textsOf(right.join(" ?? "), lookup));
  const choice = choiceOf(source);
  if (choice !== undefined) return textsOfChoice(choice, lookup);
  const terms = splitSource(source, /\s\+\s/y);
  if (terms.length > 1) return combined(terms.map((term) => textsOf(term, lookup)));
  if (source.startsWith('"') && endOf(source, 0) === source.length) return [unescaped(source.slice(1, -1))];
  if (source.startsWith("`") && endOf(source, 0) === source.length) return textsOfTemplate(source, lookup);
  return NAME.test(source) ? lookup(source) : undefined;
}

/** Returns a lookup of the constants that source defines, the last ones before its end first. */
export function constantsIn(source: string, otherwise: Lookup = () => undefined): Lookup {
  const lookup = (name: string): readonly string[] | undefined => {
    const start = source.search(
      new RegExp(String.raw`\bconst ${name.replaceAll(/[.$]/g, String.raw`\$&`)}(?::[^=]+)? =\s`),
    );
    if (start < 0) return otherwise(name);
    const value = statementAt(source, source.indexOf("=", start) + 1);
    return value.includes(name) ? undefined : textsOf(value, lookup);
  };
  return lookup;
}

interface Choice {
  readonly condition: string;
  readonly yes: string;
  readonly no: string;
}

function choiceOf(source: string): Choice | undefined {
  const [condition = "", ...rest] = splitSource(source, /\s\?\s/y);
  if (rest.length === 0) return undefined;
  const [yes = "", ...no] = splitSource(rest.join(" ? "), /\s:\s/y);
  return { condition, yes, no: no.join(" : ") };
}

/** Of a choice between one thing and several, as in `count === 1 ? "" : "s"`, the text about several stands for both. */
function textsOfChoice({ condition, yes, no }: Choice, lookup: Lookup): readonly string[] | undefined {
  const several = textsOf(no, lookup);
  if (condition.endsWith("=== 1")) return several;
  const first = textsOf(yes, lookup);
  return first === undefined || several === undefined ? (first ?? several) : [...first, ...several];
}

function textsOfTemplate(source: string, lookup: Lookup): readonly string[] {
  const parts: (readonly string[])[] = [];
  let fixed = "";
  for (let at = 1; at < source.length - 1;) {
    const isValue = source.startsWith("${", at);
    const end = isValue ? endOf(source, at + 1) : at + (source[at] === "\\" ? 2 : 1);
    if (isValue) {
      parts.push([unescaped(fixed)], textsOfValue(source.slice(at + 2, end - 1), lookup));
      fixed = "";
    } else fixed += source.slice(at, end);
    at = end;
  }
  return combined([...parts, [unescaped(fixed)]]) ?? [];
}

/** A value that is a text only in one case of several is unknown. */
function textsOfValue(expression: string, lookup: Lookup): readonly string[] {
  const choice = choiceOf(expression);
  const isPartlyText =
    choice !== undefined && [choice.yes, choice.no].some((one) => textsOf(one, lookup) === undefined);
  if (isPartlyText || /\s\?\?\s/.test(expression)) return [VALUE];
  return textsOf(expression, lookup) ?? [VALUE];
}

/** Returns each combination of the parts' texts; undefined where no part is a text. */
function combined(parts: readonly (readonly string[] | undefined)[]): readonly string[] | undefined {
  if (parts.every((part) => part === undefined)) return undefined;
  return parts.reduce<readonly string[]>(
    (begun, part) => begun.flatMap((text) => (part ?? [VALUE]).map((next) => text + next)),
    [""],
  );
}

function nonempty(texts: readonly string[] | undefined): readonly string[] | undefined {
  return texts?.every((text) => text === "") === true ? undefined : texts;
}

function insideOfParentheses(source: string): string | undefined {
  return source.startsWith("(") && endOf(source, 0) === source.length ? source.slice(1, -1) : undefined;
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, "$1");
}
