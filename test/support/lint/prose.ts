import { execFileSync } from "node:child_process";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import * as v from "valibot";
import { printWeight } from "./weight.ts";
import { CONSTRUCTIONS } from "./prose_rules.ts";
import {
  type Change,
  compareCounts,
  countOccurrences,
  findInFile,
  type FolderCounts,
  lowerCounts,
  type Occurrence,
} from "./prose_counts.ts";

/**
 * Fails when a construction that CONTRIBUTING.md ("How we write") replaces occurs more often in a top-level folder than
 * recorded in prose_counts.json.
 *
 * `--record` lowers the recorded numbers to those counted; it never raises one.
 */
const RECORD = new URL("prose_counts.json", import.meta.url);
const MOST_PLACES = 12;

/** Matches data for tests, and lists that quote titles of tests, which are not our prose. */
const OMITTED = /^test\/(?:fixtures\/|mutants\.yaml$)/;

function projectFiles(): readonly string[] {
  const listed = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    encoding: "utf8",
  });
  return listed.split("\0").filter((file) => file !== "" && !OMITTED.test(file) && isFile(file));
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;
}

/**
 * Returns the places of a construction in a folder, those in the newest files first: a new occurrence is likely there.
 */
function newestPlaces(found: readonly Occurrence[], { folder, construction }: Change): readonly string[] {
  const age = (place: string): number => statSync(place.slice(0, place.indexOf(":"))).mtimeMs;
  return found
    .filter((one) => one.folder === folder && one.construction === construction)
    .map(({ place }) => place)
    .toSorted((a, b) => age(b) - age(a))
    .slice(0, MOST_PLACES);
}

const RECORDED = v.record(v.string(), v.record(v.string(), v.number()));

const recorded: FolderCounts = v.parse(RECORDED, JSON.parse(readFileSync(RECORD, "utf8")));
const found = projectFiles().flatMap((file) => findInFile(file, readFileSync(file, "utf8")));
const counted = countOccurrences(found);
const changes = compareCounts(recorded, counted);

for (const change of changes.filter((one) => one.counted > one.recorded)) {
  const instead = CONSTRUCTIONS.find(({ name }) => name === change.construction)?.instead;
  const where = change.folder === "." ? "files at the top" : `${change.folder}/`;
  console.error(
    `prose: "${change.construction}" in ${where}: ${change.counted} times, ${change.recorded} recorded; ${instead}`,
  );
  for (const place of newestPlaces(found, change)) console.error(`  ${place}`);
  process.exitCode = 1;
}

const fewer = changes.filter((one) => one.counted < one.recorded).length;
if (process.argv.includes("--record")) {
  writeFileSync(RECORD, `${JSON.stringify(lowerCounts(recorded, counted), undefined, 2)}\n`);
} else if (fewer > 0) {
  console.log(`prose: ${fewer} counts are lower than recorded; npm run lint -- --record keeps them low`);
}

if (process.argv.includes("--weight")) printWeight();
