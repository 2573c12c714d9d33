import { printable, shortList } from "../../objects/printable.ts";

declare const LANGUAGE: unique symbol;

/**
 * A text in a markup language, in which everything from files, names and objects is escaped. Only this file makes markup
 * of other texts, so a text that nobody escaped does not compile.
 */
type Markup<L extends string> = string & { readonly [LANGUAGE]: L };
/** HTML, or XML, whose entities by number are the same. */
export type Html = Markup<"HTML">;
export type Markdown = Markup<"Markdown">;
export type Mermaid = Markup<"Mermaid">;
/** A message of SARIF, in which `[text](target)` is a link (2.1.0 section 3.11.6). */
export type SarifMessage = Markup<"SARIF">;
/** The text for a terminal, which obeys nothing in it but line ends, tabs and colours. */
export type TerminalText = Markup<"terminal">;

type Tag<M> = (literals: TemplateStringsArray, ...parts: readonly (M | "" | number | readonly M[])[]) => M;

/** Returns a template's tag, which joins what the program's author wrote with parts of the same language. */
function tagOf<M extends string>(): Tag<M> {
  return (literals, ...parts) => {
    const texts = parts.map((part) => (typeof part === "object" ? part.join("") : String(part)));
    return literals.map((literal, index) => literal + (texts[index] ?? "")).join("") as M;
  };
}

export const inHtml = tagOf<Html>();
/** The same for a text without parts, whose backslashes stay. */
export const rawHtml = (literals: TemplateStringsArray): Html => String.raw(literals) as Html;
export const inMarkdown = tagOf<Markdown>();
export const inMermaid = tagOf<Mermaid>();

/** Joins parts of one language. */
export function joined<M extends Html | Markdown | Mermaid>(parts: readonly M[], between: "\n" | "\n\n"): M {
  return parts.join(between) as M;
}

/** Escapes a text for an element or a quoted attribute; control and bidirectional characters are written out. */
export function markupText(text: string): Html {
  return printable(text).replaceAll(/[&<>"'`]/g, (sign) => `&#${sign.codePointAt(0)};`) as Html;
}

/** Returns JSON for a script element: nothing in it ends the element or begins a comment of HTML. */
export function scriptData(value: unknown): Html {
  return JSON.stringify(value).replaceAll(
    /[<>&\u2028\u2029]/g,
    (sign) => `\\u${(sign.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  ) as Html;
}

/**
 * Formats a text as code in Markdown, where nothing in it is a link, a mention or a format: the fence is longer than
 * any run of backticks in it. Bars are escaped, since they would end a cell of a table.
 */
export function markdownCode(text: string): Markdown {
  const shown = printable(text).replaceAll("|", "\\|");
  const longest = Math.max(0, ...[...shown.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  const gap = longest > 0 || shown === "" ? " " : "";
  return `${fence}${gap}${shown}${gap}${fence}` as Markdown;
}

/** Formats names as code: the first of them, and how many more there are. */
export function markdownCodes(names: readonly string[], most: number): Markdown {
  return shortList(names, most, markdownCode) as Markdown;
}

/** Returns a sentence of the program in Markdown; signs that could be a format, a link or a mention become question marks. */
export function markdownWords(text: string): Markdown {
  return printable(text).replaceAll(/[^\p{L}\p{N} .,:;()/\\-]/gu, "?") as Markdown;
}

/** Formats a table of Markdown. */
export function markdownTable(head: readonly Markdown[], rows: readonly (readonly Markdown[])[]): Markdown {
  const line = (cells: readonly string[]): string => `| ${cells.join(" | ")} |\n`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("") as Markdown;
}

/** Returns a quoted text of Mermaid, in which a sign that could end the quotes, or be markup, is its number. */
export function mermaidText(text: string): Mermaid {
  return `"${printable(text).replaceAll(/[^\w ./:,+*()-]/g, (sign) => `#${sign.codePointAt(0)};`)}"` as Mermaid;
}

/** Returns a message of SARIF without links. A backslash would not do for viewers that know no links. */
export function sarifMessage(text: string): SarifMessage {
  return text.replaceAll("](", "] (") as SarifMessage;
}

/** Returns a block of Markdown with a picture of Mermaid. */
export function mermaidBlock(lines: readonly Mermaid[]): Markdown {
  return ["\n```mermaid", ...lines, "```\n"].join("\n") as Markdown;
}

/** A colour, or a character that is rare in what we print. */
const COLOUR_OR_RARE = /(?![\n\t])\p{Cc}\[\d+(?:;\d+)*m|[^\n\t -~]/gu;
const OBEYED = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

/**
 * Writes out, as JSON does, each character that could move a terminal's cursor or reorder a line. Everything that the
 * program prints passes here: what a format leaves as it is, as JSON does with bidirectional marks, and what a printer
 * forgot.
 */
export function terminalText(text: string, hasColour: boolean): TerminalText {
  const unit = (one: string): string => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return text.replaceAll(COLOUR_OR_RARE, (sign) => {
    const isOurs = sign.length > 2 ? hasColour && sign.startsWith("\u001b") : !OBEYED.test(sign);
    return isOurs ? sign : sign.replaceAll(/[^ -~]/g, unit);
  }) as TerminalText;
}
