import { globSync, readFileSync } from "node:fs";
import { CHECKS } from "../../../cli/node/doctor/checks.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import { type Call, callsOf, functionAround } from "./calls.ts";
import { endOf, itemsOf } from "./source_text.ts";
import { constantsIn, type Lookup, textsOf, VALUE } from "./texts.ts";

/** A finding as the sources of a check have it. Where a text has several forms, all of them. */
export interface DoctorFinding {
  /** Undefined where the sources do not have the words. */
  readonly what: readonly string[] | undefined;
  readonly severities: readonly string[];
  readonly why: readonly string[];
  readonly way: readonly string[];
}

/** A check of the doctor with its findings. */
export interface DoctorCheck {
  readonly id: string;
  readonly summary: string;
  readonly findings: readonly DoctorFinding[];
}

const CHECK = /^export const \w+: Check(?:<\w+>)? = \{\s+id: "([\w-]+)"/;

type Fields = ReadonlyMap<string, string>;

const NO_FIELDS: Fields = new Map();

/** Constants of other files that occur in findings. */
const IMPORTED: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(TUNNEL).map(([name, value]) => [`TUNNEL.${name}`, [String(value)]]),
);

/** Returns all checks with their findings, sorted by the check's name. */
export function doctorChecks(): readonly DoctorCheck[] {
  const findings = new Map<string, readonly DoctorFinding[]>();
  for (const file of globSync(["cli/node/doctor/checks/*.ts", "policyd/checks/*.ts"])) {
    for (const [id, ofCheck] of findingsIn(readFileSync(file, "utf8"))) {
      findings.set(id, [...(findings.get(id) ?? []), ...ofCheck]);
    }
  }
  return CHECKS.map(({ id, summary }) => ({ id, summary, findings: findings.get(id) ?? [] })).toSorted((a, b) =>
    a.id < b.id ? -1 : 1,
  );
}

/** Returns the findings of a file's checks, those of functions at each check that calls them. */
export function findingsIn(source: string): ReadonlyMap<string, readonly DoctorFinding[]> {
  const blocks = blocksOf(source);
  const checks = [...blocks].flatMap(([name, { text }]) => {
    const id = CHECK.exec(text)?.[1];
    return id === undefined ? [] : [{ name, id }];
  });
  return new Map(
    checks.map(({ name, id }) => [
      id,
      [...reached(name, blocks)].flatMap((one) => {
        const block = blocks.get(one);
        return block === undefined ? [] : findingsOfBlock(block, source, blocks);
      }),
    ]),
  );
}

interface Block {
  readonly start: number;
  readonly text: string;
}

/** Returns the declarations at the top level of source, by name. */
function blocksOf(source: string): ReadonlyMap<string, Block> {
  const heads = [...source.matchAll(/^(?:export )?(?:const|function\*?) (\w+)/gm)];
  return new Map(
    heads.map(({ 1: name = "", index }, at) => [
      name,
      { start: index, text: source.slice(index, heads[at + 1]?.index) },
    ]),
  );
}

/** Returns a block and those that it uses, also indirectly, except for other checks. */
function reached(name: string, blocks: ReadonlyMap<string, Block>, known = new Set<string>()): ReadonlySet<string> {
  known.add(name);
  for (const [other, { text }] of blocks) {
    const isUsed = new RegExp(String.raw`\b${other}\b`).test(blocks.get(name)?.text ?? "");
    if (isUsed && !known.has(other) && !CHECK.test(text)) reached(other, blocks, known);
  }
  return known;
}

function findingsOfBlock(block: Block, source: string, blocks: ReadonlyMap<string, Block>): readonly DoctorFinding[] {
  const { start, text } = block;
  const found: DoctorFinding[] = [];
  for (let at = text.indexOf("{"); at >= 0; at = text.indexOf("{", at + 1)) {
    const own = text[at - 1] === "$" ? NO_FIELDS : fieldsOf(text, at);
    if (!own.has("what")) continue;
    const fields = new Map([["severity", severityOfCallee(text.slice(0, at), blocks)], ...own]);
    const imported: Lookup = (name) => IMPORTED.get(name);
    const constants = constantsIn(text.slice(0, at), constantsIn(source, imported));
    const calls = callsThatFill(fields, start, source);
    if (calls === undefined) found.push(findingOf(fields, constants));
    else for (const call of calls) found.push(findingOf(overlaid(fields, call, source), argumentsOf(call, constants)));
  }
  // An object that only passes a text on has no words of its own.
  return found.filter(({ what }) => what?.every((words) => /^[…:\s]*$/.test(words)) !== true);
}

/** Returns the severity that a function gives to an object whose source begins after this text, as its argument. */
function severityOfCallee(before: string, blocks: ReadonlyMap<string, Block>): string {
  const callee = blocks.get(/(\w+)\([^(]*$/.exec(before)?.[1] ?? "")?.text ?? "";
  return /\bseverity: ("\w+")/.exec(callee)?.[1] ?? "";
}

/** Returns the calls of a block's function, where its parameters occur in the fields; undefined where they do not. */
function callsThatFill(fields: Fields, start: number, source: string): readonly Call[] | undefined {
  const head = functionAround(source, source.indexOf("{", start));
  if (head === undefined || head.index < start) return undefined;
  const values = [...fields.values()];
  const isFilled = head.parameters.some((name) => values.some((value) => uses(value, name)));
  return isFilled ? callsOf(head, source) : undefined;
}

/** Whether an expression contains a name, also within the values of a template. */
function uses(expression: string, name: string): boolean {
  return new RegExp(String.raw`^${name}$|\$\{${name}\}`).test(expression);
}

function argumentsOf({ argumentOf }: Call, constants: Lookup): Lookup {
  return (name) => {
    const argument = argumentOf.get(name);
    return argument === undefined ? constants(name) : textsOf(argument, constants);
  };
}

/** Returns the fields of a result that is spread into an object which replaces some of them. */
function overlaid(fields: Fields, { index }: Call, source: string): Fields {
  if (source.slice(index - 3, index) !== "...") return fields;
  const own = fieldsOf(source, source.lastIndexOf("{", index));
  return new Map([...fields, ...own]);
}

/** Returns the members of the object that begins at an offset, by name; none of a block of statements. */
function fieldsOf(source: string, open: number): Fields {
  if (withoutGroups(source.slice(open + 1, endOf(source, open) - 1)).includes(";")) return NO_FIELDS;
  return new Map(
    itemsOf(source, open).flatMap((item) => {
      const [, name, value] = /^(\w+)(?::\s*([\s\S]+))?$/.exec(item) ?? [];
      return name === undefined ? [] : [[name, value ?? name] as const];
    }),
  );
}

function withoutGroups(source: string): string {
  let outside = "";
  for (let at = 0; at < source.length; at = endOf(source, at)) outside += source[at] ?? "";
  return outside;
}

function findingOf(fields: Fields, lookup: Lookup): DoctorFinding {
  const texts = (name: string): readonly string[] | undefined => {
    const value = fields.get(name);
    const found = value === undefined ? undefined : textsOf(value, lookup);
    return found && [...new Set(found.map((text) => text.replaceAll(/…(?: …)+|……+/g, VALUE)))];
  };
  return {
    what: texts("what"),
    severities: [...(fields.get("severity") ?? "").matchAll(/"(error|warning|info)"/g)].map(([, one = ""]) => one),
    why: texts("why") ?? [],
    way: texts("way") ?? [],
  };
}
