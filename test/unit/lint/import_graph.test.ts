import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { LAYERS } from "../../support/lint/boundaries.ts";

const PROJECT = path.resolve(import.meta.dirname, "../../..");

/** An import of one folder's file by another folder's. */
interface FolderImport {
  readonly from: string;
  readonly to: string;
  /** The importing file and the imported one, relative to the project. */
  readonly files: readonly [from: string, to: string];
}

const RELATIVE_IMPORT = /(?:from|import|import\()\s*"(\.[^"]+)"/g;

/** Returns the imports between the second-level folders of these top-level folders; imports of types count, too. */
function folderImports(project: string, folders: readonly string[]): readonly FolderImport[] {
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
function circularImports(imports: readonly FolderImport[]): readonly FolderImport[] {
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

describe("lint: the graph of imports between folders", () => {
  it("no two second-level folders of the product import each other, also by way of others", () => {
    const imports = folderImports(PROJECT, Object.keys(LAYERS));
    assert.ok(imports.length > 500, "the imports are found");
    assert.deepEqual(
      circularImports(imports).map(({ files }) => files.join(" imports ")),
      [],
    );
  });

  it("a circle of three folders is reported without the imports that only lead to it", () => {
    const edge = (from: string, to: string) => ({ from, to, files: [`${from}/x.ts`, `${to}/y.ts`] as const });
    const circle = [edge("a/b", "a/c"), edge("a/c", "d/e"), edge("d/e", "a/b")];
    assert.deepEqual(circularImports([...circle, edge("f/g", "a/b"), edge("a/c", "h/i")]), circle);
  });
});
