import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const PROJECT = fileURLToPath(new URL("../../../", import.meta.url));
const MODULUS = "policyd/services/rules/endpoint_draw.ts";
const EXACT = /(?<=export const EXACT_MODULI = \[)[^\]]*(?=\])/;
const DRAWN = /(?<=const DRAWN_MODULI = \[)[^\]]*(?=\])/;

/** A copy of our code with other classes of endpoint counts, which is measured beside the present ones. */
export class TreeVariant implements Disposable {
  readonly #root = mkdtempSync(path.join(os.tmpdir(), "drawbridge-variant-"));

  /** @throws Error when the classes are not at their known place */
  constructor(exact: readonly number[], drawn: readonly number[]) {
    for (const directory of ["kernel", "ipam", "cni", "policyd", "test/lab", "test/bench"]) {
      cpSync(path.join(PROJECT, directory), path.join(this.#root, directory), { recursive: true });
    }
    cpSync(path.join(PROJECT, "package.json"), path.join(this.#root, "package.json"));
    symlinkSync(path.join(PROJECT, "node_modules"), path.join(this.#root, "node_modules"));
    const file = path.join(this.#root, MODULUS);
    const source = readFileSync(file, "utf8");
    if (!EXACT.test(source) || !DRAWN.test(source)) throw new Error(`${MODULUS} has no lists of moduli`);
    writeFileSync(file, source.replace(EXACT, exact.join(", ")).replace(DRAWN, drawn.join(", ")));
  }

  async ours(): Promise<typeof import("./ours.ts")> {
    const url = pathToFileURL(path.join(this.#root, "test/bench/services/ours.ts"));
    const module: unknown = await import(url.href);
    return module as typeof import("./ours.ts");
  }

  [Symbol.dispose](): void {
    rmSync(this.#root, { recursive: true, force: true });
  }
}
