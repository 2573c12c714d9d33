import { counted } from "../../output/text.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import type { SkippedFile } from "../files/not_manifest.ts";
import type { ReadingReport } from "../manifests.ts";
import { CLUSTER } from "../place.ts";

/** The most names in a line. */
const MOST_NAMED = 5;

/** Returns one line about the input: the number of objects and files, and what was ignored or skipped and why. */
export function summaryText({ files, objects, ignored, unread, skipped }: ReadingReport): string {
  const parts = [
    `read ${counted(objects, "object")} ${placeText(files)}`,
    ...(ignored.size === 0 ? [] : [`ignored ${kindsText(ignored)}: no answer depends on these kinds`]),
    ...(unread.size === 0
      ? []
      : [`did not read ${kindsText(unread)}: pods and rules that these make are in no answer`]),
    ...(skipped.length === 0 ? [] : [`skipped ${shortList(skipped, MOST_NAMED, skippedText)}`]),
  ];
  return printable(parts.join("; "));
}

function kindsText(kinds: ReadonlyMap<string, number>): string {
  const sorted = [...kinds].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return shortList(sorted, MOST_NAMED, ([kind, count]) => `${count} ${kind}`);
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
