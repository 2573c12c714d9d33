import path from "node:path";
import { DrawbridgeError } from "../../kernel/error.ts";

/** Access to the files of the command line; standard input is the file `-`. */
export interface ManifestFileSystem {
  /** Returns the type of the target of a path, following links; undefined for nothing, or anything else. */
  typeOf(path: string): "file" | "directory" | undefined;
  /** Whether a path is a symbolic link itself. */
  isLink(path: string): boolean;
  /** The names in a directory. */
  namesIn(directory: string): readonly string[];
  /** A file's bytes, in pieces. */
  read(path: string): Iterable<Uint8Array>;
}

const EXTENSIONS = [".json", ".yaml", ".yml"];
/** More levels than any tree of manifests has. */
const MOST_LEVELS = 32;

/**
 * Returns the files that paths stand for, as with `kubectl -f`: a file whatever its name; of a directory the files that
 * end in .json, .yaml or .yml, with `isRecursive` also those below it, except through links to directories; `-` is
 * standard input. The order is the given one, within a directory by name.
 *
 * @throws DrawbridgeError ERR_INPUT for a path that leads nowhere, or a directory without such a file
 */
export function manifestFiles(
  files: ManifestFileSystem,
  paths: readonly string[],
  isRecursive: boolean,
): readonly string[] {
  return [...new Set(paths.flatMap((given) => filesAt(files, given, isRecursive)))];
}

function filesAt(files: ManifestFileSystem, given: string, isRecursive: boolean): readonly string[] {
  if (given === "-") return [given];
  if (/^https?:\/\//.test(given)) {
    throw new DrawbridgeError("ERR_INPUT", `${given}: URLs are not read; expected a file: download it first`);
  }
  const type = files.typeOf(given);
  if (type === "file") return [given];
  if (type === undefined) throw new DrawbridgeError("ERR_INPUT", `${given}: expected a file or a directory`);
  const found = below(files, given, isRecursive ? MOST_LEVELS : 0);
  if (found.length === 0) {
    const way = isRecursive ? "" : "; -R looks in the directories below it, too";
    throw new DrawbridgeError("ERR_INPUT", `${given}: no file that ends in ${EXTENSIONS.join(", ")}${way}`);
  }
  return found;
}

function below(files: ManifestFileSystem, directory: string, levels: number): readonly string[] {
  return files
    .namesIn(directory)
    .toSorted()
    .flatMap((name) => {
      const place = path.join(directory, name);
      const type = files.typeOf(place);
      if (type === "directory") return levels > 0 && !files.isLink(place) ? below(files, place, levels - 1) : [];
      if (!EXTENSIONS.includes(path.extname(name))) return [];
      if (type === "file") return [place];
      throw new DrawbridgeError("ERR_INPUT", `${place}: expected a file; remove it if it is a link that leads nowhere`);
    });
}
