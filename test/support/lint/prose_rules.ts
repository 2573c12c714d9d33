/** A construction that makes a sentence hard to read, and the plain way to say it. */
export interface Construction {
  /** The key in the recorded counts. */
  readonly name: string;
  /** Finds each occurrence in the text of one paragraph; always global. */
  readonly pattern: RegExp;
  /** The plain alternative, as the failure prints it. */
  readonly instead: string;
}

/** A sentence begins at the start of a paragraph or after the end of the sentence before. */
const SENTENCE_START = String.raw`(?<=^|[.!?:]\s)`;

/** Nouns that something can really stand behind, in space or in a network. */
const PLACES = String.raw`(?:(?:an?|the|one|our|its|small|same|load)\s+)*(?:NAT|address|router|Service|uplink|proxy|balancer|interfaces?|firewall|gateway|node)\b`;

/**
 * The constructions that CONTRIBUTING.md ("How we write") replaces by plain English.
 *
 * Questions ("What does a node load?") are not headless sentences, "there is no route" is plain English, and a client
 * may well stand behind a router: these are not counted.
 */
export const CONSTRUCTIONS: readonly Construction[] = [
  {
    name: "headless what",
    pattern: new RegExp(String.raw`${SENTENCE_START}What\s(?![^.!?]*\?)`, "g"),
    instead: "begin with the subject: name the thing instead of saying what it does",
  },
  {
    name: "headless who",
    pattern: new RegExp(String.raw`${SENTENCE_START}Who(?:ever)?\s(?![^.!?]*\?)`, "g"),
    instead: 'name the subject: "a caller that …", "the program that …"',
  },
  {
    name: "is no, is none",
    pattern: /(?<!\b[Tt]here )\b(?:is|are|was|were) (?:no|none)\b/g,
    instead: 'negate the verb: "is not a …", "does not exist"',
  },
  {
    name: "is told",
    pattern: /\b(?:is|are|was|were|be|been|being) told\b|\btold of\b|\btells? of\b/g,
    instead: 'say "is reported", "is notified", "learns"',
  },
  { name: "alone", pattern: /\balone\b/g, instead: 'say "only"' },
  {
    name: "behind",
    pattern: new RegExp(String.raw`\b[Bb]ehind\b(?!\s+${PLACES})`, "g"),
    instead: 'say "after" for time and order',
  },
  { name: "anew", pattern: /\banew\b/g, instead: 'say "again"' },
  { name: "so many", pattern: /\b[Ss]o many\b/g, instead: 'say "the number of", "that many" or the number itself' },
  {
    name: "are others",
    pattern: /\b(?:are|is|were|was) (?:others|another)\b/g,
    instead: 'say "have changed", "differ"',
  },
  {
    name: "he, his, him",
    pattern: /\b(?:[Hh]e|[Hh]is|[Hh]im)\b/g,
    instead: 'a program is "it"; a person has a role: "the administrator", "they"',
  },
];

/** One occurrence of a construction. */
export interface Finding {
  readonly construction: Construction;
  /** Offset of the occurrence within the paragraph's text. */
  readonly offset: number;
}

/** Finds every occurrence of every construction in the text of one paragraph. */
export function findConstructions(text: string): readonly Finding[] {
  return CONSTRUCTIONS.flatMap((construction) =>
    [...text.matchAll(construction.pattern)].map(({ index }) => ({ construction, offset: index })),
  );
}
