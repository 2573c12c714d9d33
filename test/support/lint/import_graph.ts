import { globSync, readFileSync } from "node:fs";
import path from "node:path";

/** An import of one folder's file by another folder's. */
export interface FolderImport {
  readonly from: string;
  readonly to: string;
  /** The importing file and the imported one, relative to the project. */
  readonly files: readonly [from: string, to: string];
}

const RELATIVE_IMPORT = /(?:from|import|import\()\s*"(\.[^"]+)"/g;

/** Returns the imports between the second-level folders of these top-level folders; imports of types count, too. */
export function folderImports(project: string, folders: readonly string[]): readonly FolderImport[] {
  return globSync(`{${folders.join()}}/**/*.ts`, { cwd: project }).flatMap((file) =>
    [...readFileSync(path.join(project, file), "utf8").matchAll(RELATIVE_IMPORT)].flatMap(([, specifier = ""]) => {
      const target = path.posix.join(path.posix.dirname(file), specifier);
      const [from, to] = [folderOf(file), folderOf(target)];
      return from === undefined || to === undefined || from === to
        ? []
        : [{ from, to, files: [file, target] as const }];
    }),
  );
}

/**
 * Returns the imports that belong to a circle of folders: those between two folders, each of which imports the other,
 * also by way of further ones.
 */
export function circularImports(imports: readonly FolderImport[]): readonly FolderImport[] {
  const next = Map.groupBy(imports, ({ from }) => from);
  const reached = new Map([...next.keys()].map((folder) => [folder, reachableFrom(folder, next)] as const));
  return imports.filter(({ from, to }) => reached.get(to)?.has(from));
}

function reachableFrom(start: string, next: ReadonlyMap<string, readonly FolderImport[]>): ReadonlySet<string> {
  const found = new Set<string>();
  const pending = [start];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    for (const { to } of next.get(folder) ?? []) {
      if (!found.has(to)) pending.push(to);
      found.add(to);
    }
  }
  return found;
}

/** Returns the second-level folder of a file; undefined for a file directly in a top-level folder. */
function folderOf(file: string): string | undefined {
  const parts = file.split("/");
  return parts.length > 2 ? parts.slice(0, 2).join("/") : undefined;
}
