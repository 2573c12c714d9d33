/** A stretch of prose: its words with all white space folded to single spaces, and the line where it begins. */
export interface Paragraph {
  readonly text: string;
  /** The line's number, from 1 on. */
  readonly line: number;
}

/** The number of words below which a string is a name, a key or a fragment of output. */
const LEAST_WORDS_OF_A_MESSAGE = 3;

/**
 * Reads the prose of a file: comments and messages of TypeScript and JavaScript, paragraphs of Markdown, comments of
 * YAML and shell scripts.
 *
 * @param file its name decides how it is read
 * @returns the paragraphs in their order; none for other kinds of files
 */
export function readProse(file: string, source: string): readonly Paragraph[] {
  if (/\.(?:ts|mjs|js)$/.test(file)) return readCode(source);
  if (file.endsWith(".md")) return readMarkdown(source);
  if (/\.(?:ya?ml|sh)$/.test(file) || file === ".ci/run") return readHashComments(source);
  return [];
}

/**
 * Matches the parts of TypeScript source that matter here, from a known place on: comments, strings, templates, and
 * regular expressions, which are skipped because they may contain quotes. A slash begins a regular expression where no
 * value has ended just before it.
 */
const TOKEN =
  /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\[\s\S])*"|'(?:[^'\\\n]|\\[\s\S])*'|`(?:[^`\\]|\\[\s\S])*`|(?<=(?:^|[([{,;=:?!&|+>]|\breturn)\s*)\/(?![/*])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/g;

function readCode(source: string): readonly Paragraph[] {
  const found: Paragraph[] = [];
  let lineComments: { text: string; line: number; end: number } | undefined;
  const closeLineComments = (): void => {
    if (lineComments !== undefined) found.push({ text: fold(lineComments.text), line: lineComments.line });
    lineComments = undefined;
  };
  let line = 1;
  let read = 0;
  for (const { 0: token, index } of source.matchAll(TOKEN)) {
    line += countLines(source.slice(read, index));
    read = index;
    if (token.startsWith("//")) {
      // Lines of comments that follow each other are one paragraph.
      if (lineComments !== undefined && lineComments.end === line - 1) {
        lineComments.text += `\n${token.slice(2)}`;
        lineComments.end = line;
      } else {
        closeLineComments();
        lineComments = { text: token.slice(2), line, end: line };
      }
      continue;
    }
    closeLineComments();
    if (token.startsWith("/*")) found.push(...readBlockComment(token, line));
    else if (!token.startsWith("/")) found.push(...readMessage(token, line));
  }
  closeLineComments();
  return found;
}

function readBlockComment(token: string, line: number): readonly Paragraph[] {
  const lines = token
    .replace(/^\/\*+/, "")
    .replace(/\*\/$/, "")
    .split("\n")
    .map((text) => text.replace(/^\s*\*? ?/, ""));
  return joinLines(lines, line, (text) => (/^(?:@|- )/.test(text.trimStart()) ? "begins" : "continues"));
}

function readMessage(token: string, line: number): readonly Paragraph[] {
  const text = fold(token.slice(1, -1).replaceAll(/\$\{[^}]*\}/g, "…"));
  return text.split(" ").length < LEAST_WORDS_OF_A_MESSAGE ? [] : [{ text, line }];
}

function readMarkdown(source: string): readonly Paragraph[] {
  let inCode = false;
  const lines = source.split("\n").map((text) => {
    if (/^\s*(?:```|~~~)/.test(text)) {
      inCode = !inCode;
      return "";
    }
    return inCode ? "" : text.replaceAll(/`[^`]*`/g, "code");
  });
  return joinLines(lines, 1, (text) => (/^\s*(?:#|\||[*-] |\d+\. )/.test(text) ? "begins" : "continues")).map(
    ({ text, line }) => ({ text: text.replace(/^(?:#+ |\| |[*-] |\d+\. )/, "").replace(/^\*+/, ""), line }),
  );
}

function readHashComments(source: string): readonly Paragraph[] {
  const lines = source.split("\n").map((text) => /^\s*# ?(?<comment>.*)$/.exec(text)?.groups?.["comment"] ?? "");
  return joinLines(lines, 1, () => "continues");
}

/** Joins lines to paragraphs: an empty line ends one, and a line that begins something of its own starts the next. */
function joinLines(
  lines: readonly string[],
  firstLine: number,
  role: (line: string) => "begins" | "continues",
): readonly Paragraph[] {
  const found: { text: string; line: number }[] = [];
  let open = false;
  for (const [index, text] of lines.entries()) {
    const last = found.at(-1);
    if (text.trim() === "") open = false;
    else if (open && last !== undefined && role(text) === "continues") last.text += `\n${text}`;
    else {
      found.push({ text, line: firstLine + index });
      open = true;
    }
  }
  return found.map(({ text, line }) => ({ text: fold(text), line }));
}

function fold(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

function countLines(text: string): number {
  return text.split("\n").length - 1;
}
