import { CONSTRUCTIONS, findConstructions } from "./prose_rules.ts";
import { readProse } from "./prose_text.ts";

/** The number of occurrences of each construction, by its name. */
export type Counts = Readonly<Record<string, number>>;

/** Counts by top-level folder; "." stands for the files beside the folders. */
export type FolderCounts = Readonly<Record<string, Counts>>;

/** A construction in a file of the project. */
export interface Occurrence {
  readonly folder: string;
  readonly construction: string;
  /** `file:line: …the words around it…` */
  readonly place: string;
}

/** A folder in which a construction occurs more often, or less often, than recorded. */
export interface Change {
  readonly folder: string;
  readonly construction: string;
  readonly recorded: number;
  readonly counted: number;
}

const WORDS_AROUND = 40;

/** Finds every construction in one file. The path is relative to the project, with "/". */
export function findInFile(file: string, source: string): readonly Occurrence[] {
  const folder = file.includes("/") ? file.slice(0, file.indexOf("/")) : ".";
  return readProse(file, source).flatMap(({ text, line }) =>
    findConstructions(text).map(({ construction, offset }) => ({
      folder,
      construction: construction.name,
      place: `${file}:${line}: …${text.slice(Math.max(0, offset - WORDS_AROUND), offset + WORDS_AROUND)}…`,
    })),
  );
}

/** Counts occurrences by folder and construction. Each folder has a number for each construction, also 0. */
export function countOccurrences(occurrences: readonly Occurrence[]): FolderCounts {
  const counts: Record<string, Record<string, number>> = {};
  const folders = [...new Set(occurrences.map(({ folder }) => folder))].toSorted();
  for (const folder of folders) counts[folder] = Object.fromEntries(CONSTRUCTIONS.map(({ name }) => [name, 0]));
  for (const { folder, construction } of occurrences) {
    const ofFolder = counts[folder];
    if (ofFolder !== undefined) ofFolder[construction] = (ofFolder[construction] ?? 0) + 1;
  }
  return counts;
}

/** Lists where counted and recorded numbers differ. A folder or construction that is not recorded counts as 0. */
export function compareCounts(recorded: FolderCounts, counted: FolderCounts): readonly Change[] {
  const folders = [...new Set([...Object.keys(recorded), ...Object.keys(counted)])].toSorted();
  return folders
    .flatMap((folder) =>
      CONSTRUCTIONS.map(({ name }) => ({
        folder,
        construction: name,
        recorded: recorded[folder]?.[name] ?? 0,
        counted: counted[folder]?.[name] ?? 0,
      })),
    )
    .filter((change) => change.recorded !== change.counted);
}

/** Returns the numbers to record next: those counted, but never more than recorded, so that recording hides no rise. */
export function lowerCounts(recorded: FolderCounts, counted: FolderCounts): FolderCounts {
  return Object.fromEntries(
    Object.keys(counted)
      .toSorted()
      .map((folder) => [
        folder,
        Object.fromEntries(
          CONSTRUCTIONS.map(({ name }) => [
            name,
            Math.min(recorded[folder]?.[name] ?? 0, counted[folder]?.[name] ?? 0),
          ]),
        ),
      ]),
  );
}
