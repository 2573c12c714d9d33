import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { concatenate, writeModules, writeRoot } from "./archive.ts";
import { boot, type GuestResult } from "./guest.ts";
import { FILES, type Kernel, KERNELS } from "./kernels.ts";
import { formatTable, type Row, rowOf } from "./table.ts";

/**
 * `npm run test:kernels [-- KERNEL…]`: boots kernels one after another and prints what works in each. The results with
 * the errors are in test-results/kernels/. It exits with 1 where something fails.
 */
const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const OUTPUT = path.join(PROJECT, "test-results/kernels");

function say(text: string): void {
  process.stderr.write(`test:kernels: ${text}\n`);
}

async function run(kernel: Kernel): Promise<{ readonly release: string; readonly results: readonly GuestResult[] }> {
  const [root, modules, initrd] = ["root", "modules", "initrd"].map((name) => path.join(OUTPUT, `${name}.cpio`));
  if (root === undefined || modules === undefined || initrd === undefined) throw new Error("no names");
  writeRoot(PROJECT, kernel.architecture, root);
  const { image, release } = writeModules(kernel, modules);
  concatenate(initrd, root, modules);
  say(`${kernel.name}: booting ${release}`);
  const lines: string[] = [];
  const onLine = (line: string): void => {
    lines.push(line);
    writeFileSync(path.join(OUTPUT, `${kernel.name}.console`), `${lines.join("\n")}\n`);
  };
  const results = await boot({ kernel, image, initrd, files: FILES, onLine });
  writeFileSync(path.join(OUTPUT, `${kernel.name}.json`), `${JSON.stringify({ release, results }, null, 2)}\n`);
  for (const file of [root, modules, initrd]) rmSync(file);
  return { release, results };
}

async function main(names: readonly string[]): Promise<number> {
  const unknown = names.filter((name) => !KERNELS.some((kernel) => kernel.name === name));
  if (unknown.length > 0) {
    say(`no kernel ${unknown.join(", ")}; there are ${KERNELS.map(({ name }) => name).join(", ")}`);
    return 2;
  }
  mkdirSync(OUTPUT, { recursive: true });
  const rows: Row[] = [];
  let isWhole = true;
  for (const kernel of KERNELS.filter(({ name }) => names.length === 0 || names.includes(name))) {
    const { release, results } = await run(kernel);
    rows.push(rowOf(release, results));
    for (const { file, failed } of results)
      for (const { title, error } of failed) say(`${kernel.name}: ${file}: ${title}\n${error}`);
    if (results.length < FILES.length) say(`${kernel.name}: it ended after ${results.length} of ${FILES.length} files`);
    isWhole &&= results.length === FILES.length && results.every(({ failed }) => failed.length === 0);
    process.stdout.write(`${formatTable(rows)}\n`);
  }
  return isWhole ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
