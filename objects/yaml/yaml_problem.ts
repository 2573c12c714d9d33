import type { ErrorCode } from "yaml";

/** A mistake in a YAML text as the library reports it. */
export interface YamlMistake {
  readonly code: ErrorCode;
  readonly message: string;
}

/** The mistake in words, and the expectation. */
const TEXTS: Readonly<Record<ErrorCode, string>> = {
  ALIAS_PROPS: "an alias (*name) has an anchor or a tag of its own; expected the alias without them",
  BAD_ALIAS: "an anchor (&) or an alias (*) has no usable name; expected letters, digits, - or _ after it",
  BAD_DIRECTIVE: "a line begins with %; expected an object (quote a text that begins with %)",
  BAD_DQ_ESCAPE:
    'a text in "quotes" has a \\ that YAML does not know; expected \\\\ for one backslash, or single quotes',
  BAD_INDENT:
    "a line is indented otherwise than its neighbours; expected the same number of blanks for all entries of a list or an object",
  BAD_PROP_ORDER: "an anchor or a tag stands before the sign - or ? or :; expected it after that",
  BAD_SCALAR_START: "a value begins with a sign that YAML reserves; expected quotes around such a text",
  BLOCK_AS_IMPLICIT_KEY:
    "a line has two keys (`a: b: c`), or a list where a key is expected; expected one key in a line, and quotes around a text with `: `",
  BLOCK_IN_FLOW: "lines with `- ` or `key:` stand within brackets; expected entries with commas there",
  DUPLICATE_KEY: "a key stands twice in one object; expected it once",
  IMPOSSIBLE: "this is not YAML",
  KEY_OVER_1024_CHARS: "a key has more than 1,024 characters; is a quote or a colon missing?",
  MISSING_CHAR: "a sign is missing; expected `key: value`, with a blank after the colon",
  MULTILINE_IMPLICIT_KEY:
    "a line is neither `key: value` nor the rest of the text before it; is a colon or a quote missing here or on the line before?",
  MULTIPLE_ANCHORS: "a value has two anchors (&); expected one",
  MULTIPLE_DOCS: "a second document begins here; expected a line --- before it",
  MULTIPLE_TAGS: "a value has two tags (!); expected one",
  NON_STRING_KEY: "a key is not a text; expected quotes around it",
  RESOURCE_EXHAUSTION: "the text is nested too deeply or refers to itself too often",
  TAB_AS_INDENT: "a line is indented by a tab; expected blanks",
  TAG_RESOLVE_FAILED: "a tag (!name) that cannot be applied to its value; expected the value without it",
  UNEXPECTED_TOKEN: "a sign that has no place here; is a bracket, a quote or a comma missing before it?",
  BAD_COLLECTION_TYPE: "a tag for another kind of value; expected the value without it",
};

/** Texts by the library's message, since it has one code for all missing characters. */
const MISSING: readonly (readonly [RegExp, string])[] = [
  [/closing ['"]quote/, "a quote is opened and not closed; expected the same quote at the end of the text"],
  [/end with a }/, "a { is not closed; expected } after its last entry"],
  [/end with a \]/, "a [ is not closed; expected ] after its last entry"],
  [/Missing , (or : )?between/, "two entries within brackets have no comma between them; expected one"],
  [/Missing space after :/, "a colon within brackets has no blank after it; expected `key: value`"],
  [/Sequence item without -/, "an entry of a list without `- ` before it; expected it as in the lines above"],
  [/Tags and anchors must be separated/, "a tag or an anchor has no blank after it; expected one"],
  [/Comments must be separated/, "a comment (#) has no blank before it; expected one, or quotes around a text with #"],
];

/** Describes a mistake in plain words, with the expectation, since the library's messages use YAML's internal terms. */
export function yamlProblemText({ code, message }: YamlMistake): string {
  const missing =
    code === "MISSING_CHAR" || code === "BAD_INDENT" ? MISSING.find(([words]) => words.test(message)) : undefined;
  return missing?.[1] ?? TEXTS[code];
}
