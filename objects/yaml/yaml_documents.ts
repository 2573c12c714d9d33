import { newlines, unreadable } from "./json_scanner.ts";

/** One document of a YAML file. */
export interface YamlDocument {
  readonly text: string;
  /** The line of the file in which the text begins, counted from 1. */
  readonly line: number;
}

const SEPARATOR = "---";
const BYTE_ORDER_MARK = "\u{feff}";
/** The characters that YAML forbids (YAML 1.1, section 5.1). A byte order mark may only begin a document. */
const FORBIDDEN = /[^\t\n\r\u{20}-\u{7e}\u{85}\u{a0}-\u{d7ff}\u{e000}-\u{fefe}\u{ff00}-\u{fffd}\u{10000}-\u{10ffff}]/u;

/**
 * Splits a file into its documents as kubectl does (apimachinery, util/yaml/decoder.go): at each line that begins with
 * `---`, which only a comment may follow. Removes byte order marks, and turns all line ends into line feeds.
 *
 * @throws DrawbridgeError ERR_OBJECT naming the line, when it is reached
 */
export function* yamlDocuments(text: string): Generator<YamlDocument> {
  let line = 1;
  let start = 0;
  let startLine = 1;
  for (let at = 0; at < text.length; line++) {
    const newline = text.indexOf("\n", at);
    const next = newline < 0 ? text.length : newline + 1;
    if (text.startsWith(SEPARATOR, at)) {
      const rest = text.slice(at + SEPARATOR.length, next).trim();
      if (rest !== "" && !rest.startsWith("#")) {
        throw unreadable(`${SEPARATOR} is followed by ${JSON.stringify(rest)}; expected a line of its own`, line);
      }
      yield documentOf(text.slice(start, at), startLine);
      start = next;
      startLine = line + 1;
    }
    at = next;
  }
  yield documentOf(text.slice(start), startLine);
}

function documentOf(written: string, line: number): YamlDocument {
  const unmarked = written.startsWith(BYTE_ORDER_MARK) ? written.slice(BYTE_ORDER_MARK.length) : written;
  const text = unmarked.replaceAll(/\r\n?/g, "\n");
  const forbidden = FORBIDDEN.exec(text);
  if (forbidden !== null) {
    const before = text.slice(0, forbidden.index);
    const code = forbidden[0].codePointAt(0)?.toString(16).padStart(4, "0") ?? "";
    throw unreadable(`the character U+${code}; expected text`, line + newlines(before));
  }
  return { text, line };
}
