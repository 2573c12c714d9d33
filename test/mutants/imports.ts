import { existsSync, readFileSync } from "node:fs";
import path from "node:path";

const IMPORT = /^(?:import|export)(?! type\b)[^;]*?"(\.[^"]+\.ts)";|\bimport\("(\.[^"]+\.ts)"\)/gm;

/** The imports among the files of a tree, by paths within it. */
export class Imports {
  readonly #root: string;
  readonly #known = new Map<string, readonly string[]>();

  constructor(root: string) {
    this.#root = root;
  }

  /** Returns the files that a file loads, itself included, with the number of imports that lead to each. */
  closure(file: string): ReadonlyMap<string, number> {
    const distances = new Map([[file, 0]]);
    // The loop also visits what it adds.
    for (const [importer, distance] of distances)
      for (const imported of this.#of(importer)) if (!distances.has(imported)) distances.set(imported, distance + 1);
    return distances;
  }

  #of(file: string): readonly string[] {
    const known = this.#known.get(file);
    if (known !== undefined) return known;
    const imports = [...readFileSync(path.join(this.#root, file), "utf8").matchAll(IMPORT)]
      .map(([, named, dynamic]) => path.join(path.dirname(file), named ?? dynamic ?? ""))
      .filter((name) => existsSync(path.join(this.#root, name)));
    this.#known.set(file, imports);
    return imports;
  }
}
