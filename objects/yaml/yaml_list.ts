import type { YamlDocument } from "./yaml_documents.ts";

/** A document that looks like a list in block style, split at its items. */
export interface CutList {
  /** The document without its items. */
  readonly frame: YamlDocument;
  /** The items, each with a space in place of its dash, so that columns stay the same. */
  readonly items: readonly YamlDocument[];
}

/** The kind and apiVersion of a broken object, as far as they can be found without reading it whole. */
export interface ObjectHeader {
  readonly apiVersion: string;
  readonly kind: string;
}

const ITEMS = /^items:[ \t]*(?:#[^\n]*)?\n/m;
const HEADER = /^(?<indent> *)(?<key>kind|apiVersion): +(?<quote>["']?)(?<value>[A-Za-z0-9./-]+)\k<quote> *(?:#.*)?$/;

/**
 * Splits the text of a list, such as `kubectl get -o yaml` prints, at the dashes of its `items`. So only one item at a
 * time has to be a tree: the library's tree of 50 MB takes more than a gigabyte.
 *
 * A text within quotes or brackets may look like a dash. Then a piece has an opening sign without its closing one and
 * cannot be read, and callers read the document as a whole.
 *
 * @returns undefined for a document that does not look like such a list
 */
export function cutList({ text, line }: YamlDocument): CutList | undefined {
  const begin = ITEMS.exec(text);
  if (begin === null) return undefined;
  const from = begin.index + begin[0].length;
  const dash = /^(?: *(?:#[^\n]*)?\n)*(?<indent> *)-(?=[ \n])/.exec(text.slice(from, from + 4096));
  const indent = dash?.groups?.["indent"];
  if (indent === undefined) return undefined;
  const firstLine = line + newlinesIn(text, 0, from);
  const cut = cutItems(text, from, indent.length);
  if (cut === undefined) return undefined;
  const { starts, end } = cut;
  const items: YamlDocument[] = [];
  let [at, itemLine] = [from, firstLine];
  for (const [i, start] of starts.entries()) {
    itemLine += newlinesIn(text, at, start);
    at = start;
    const dashAt = start + indent.length;
    items.push({
      text: `${text.slice(start, dashAt)} ${text.slice(dashAt + 1, starts[i + 1] ?? end)}`,
      line: itemLine,
    });
  }
  const rest = text.slice(end);
  // An alias in the rest may refer to an item.
  if (rest.includes("*")) return undefined;
  // Keep the line numbers of the rest.
  const gap = rest.trim() === "" ? "" : "\n".repeat(newlinesIn(text, from, end));
  return { frame: { text: `${text.slice(0, begin.index)}items: []\n${gap}${rest}`, line }, items };
}

/** Finds where the lines of the dashes begin and where the list ends; undefined where a line has no place in a list. */
function cutItems(
  text: string,
  from: number,
  indent: number,
): { readonly starts: readonly number[]; readonly end: number } | undefined {
  const starts: number[] = [];
  let at = from;
  while (at < text.length) {
    const what = lineKind(text, at, indent);
    if (what === "misplaced") return undefined;
    if (what === "end") break;
    if (what === "dash") starts.push(at);
    const newline = text.indexOf("\n", at);
    at = newline < 0 ? text.length : newline + 1;
  }
  return { starts, end: at };
}

/** Returns the role of a line in a list whose dashes have this indentation. */
function lineKind(text: string, start: number, indent: number): "dash" | "inside" | "end" | "misplaced" {
  let at = start;
  while (text[at] === " ") at++;
  const width = at - start;
  const [sign, follower] = [text[at], text[at + 1]];
  if (width > indent || sign === undefined || sign === "\n" || sign === "#") return "inside";
  if (sign === "\t") return "misplaced";
  if (width < indent) return "end";
  if (sign === "-" && (follower === " " || follower === "\n" || follower === undefined)) return "dash";
  return indent > 0 ? "misplaced" : "end";
}

/** Returns kind and version of an object whose text cannot be read; undefined unless the text has each exactly once. */
export function headerOf(text: string): ObjectHeader | undefined {
  const [, indent = ""] = /^(?:[ \t]*(?:#[^\n]*)?\n)*( *)/.exec(text) ?? [];
  const found = text.split("\n").flatMap((line) => {
    const groups = HEADER.exec(line)?.groups;
    return groups?.["indent"] === indent ? [[groups["key"], groups["value"]] as const] : [];
  });
  const [apiVersions, kinds] = ["apiVersion", "kind"].map((key) => found.filter(([name]) => name === key));
  const [apiVersion, kind] = [apiVersions?.[0]?.[1], kinds?.[0]?.[1]];
  if (found.length !== 2 || apiVersion === undefined || kind === undefined) return undefined;
  return { apiVersion, kind };
}

function newlinesIn(text: string, from: number, to: number): number {
  let count = 0;
  for (let at = text.indexOf("\n", from); at >= 0 && at < to; at = text.indexOf("\n", at + 1)) count++;
  return count;
}
