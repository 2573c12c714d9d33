import { counted } from "../../output/text.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import type { SkippedFile } from "../files/not_manifest.ts";
import type { ReadingReport } from "../manifests.ts";
import { CLUSTER } from "../place.ts";

/** The most names in a line. */
const MOST_NAMED = 5;

/** Returns one line about the input: the number of objects and files, and what was ignored or skipped and why. */
export function summaryText({ files, objects, ignored, skipped }: ReadingReport): string {
  const kinds = [...ignored].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([kind, count]) => `${count} ${kind}`);
  const parts = [
    `read ${counted(objects, "object")} ${placeText(files)}`,
    ...(kinds.length === 0 ? [] : [`ignored ${shortList(kinds, MOST_NAMED)}: no answer depends on these kinds`]),
    ...(skipped.length === 0 ? [] : [`skipped ${shortList(skipped, MOST_NAMED, skippedText)}`]),
  ];
  return printable(parts.join("; "));
}

function placeText(files: readonly string[]): string {
  const [first, ...others] = files;
  if (first === undefined) return "in no file";
  if (first === CLUSTER) return "of the cluster";
  if (others.length > 0) return `in ${files.length} files`;
  return first === "-" ? "on standard input" : `in ${first}`;
}

function skippedText({ file, reason }: SkippedFile): string {
  return `${file} (${reason})`;
}
