import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { concatenate, writeModules, writeRoot } from "./archive.ts";
import { boot, type GuestResult } from "./guest.ts";
import { type Kernel, KERNELS } from "./kernels.ts";
import { formatTable, type Row, rowOf } from "./table.ts";
import { userModeLinux } from "./user_mode_linux.ts";

/**
 * `npm run test:kernels [-- KERNEL… FILE…]`: boots kernels, two at once, and prints what works in each. The results with the
 * errors are in test-results/kernels/. It exits with 1 where something fails.
 */
const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");
const OUTPUT = path.join(PROJECT, "test-results/kernels");

/** A guest takes a processor and 3 GB of memory. */
const GUESTS_AT_ONCE = 2;

function say(text: string): void {
  process.stderr.write(`test:kernels: ${text}\n`);
}

interface Run {
  readonly release: string;
  /** By this machine's clock. */
  readonly minutes: number;
  readonly results: readonly GuestResult[];
}

/** The root file systems that this run has written, by processor. */
const roots = new Map<string, string>();

function rootOf(architecture: Kernel["architecture"]): string {
  const file = path.join(OUTPUT, `root-${architecture}.cpio`);
  if (!roots.has(architecture)) writeRoot(PROJECT, architecture, file);
  roots.set(architecture, file);
  return file;
}

async function run(kernel: Kernel): Promise<Run> {
  const [modules, initrd] = [path.join(OUTPUT, `${kernel.name}.modules`), path.join(OUTPUT, `${kernel.name}.initrd`)];
  const root = rootOf(kernel.architecture);
  const isUserMode = kernel.without !== undefined;
  const { image, release } = isUserMode ? userModeLinux(kernel) : writeModules(kernel, modules);
  concatenate(initrd, root, ...(isUserMode ? [] : [modules]));
  say(`${kernel.name}: booting ${release}`);
  const begun = Date.now();
  const lines: string[] = [];
  const onLine = (line: string): void => {
    lines.push(line);
    writeFileSync(path.join(OUTPUT, `${kernel.name}.console`), `${lines.join("\n")}\n`);
  };
  const results = await boot({ kernel, image, initrd, onLine });
  const minutes = Math.ceil((Date.now() - begun) / 60_000);
  writeFileSync(
    path.join(OUTPUT, `${kernel.name}.json`),
    `${JSON.stringify({ release, minutes, results }, null, 2)}\n`,
  );
  for (const file of [modules, initrd]) rmSync(file, { force: true });
  return { release, minutes, results };
}

async function main(args: readonly string[]): Promise<number> {
  const given = args.filter((arg) => arg.includes("/"));
  const names = args.filter((arg) => !given.includes(arg));
  const unknown = names.filter((name) => !KERNELS.some((kernel) => kernel.name === name));
  if (unknown.length > 0) {
    say(`no kernel ${unknown.join(", ")}; there are ${KERNELS.map(({ name }) => name).join(", ")}`);
    return 2;
  }
  mkdirSync(OUTPUT, { recursive: true });
  const chosen = KERNELS.filter(({ name }) => names.length === 0 || names.includes(name));
  const kernels = chosen.map((kernel) => (given.length > 0 ? { ...kernel, files: given } : kernel));
  const rows = new Map<Kernel, Row>();
  let isWhole = true;
  const left = kernels.values();
  const runLeft = async (): Promise<void> => {
    for (const kernel of left) {
      const { name, files } = kernel;
      const { release, minutes, results } = await run(kernel);
      rows.set(kernel, rowOf(`${name}: ${release}, ${minutes} min`, results));
      say(`${name}: ${results.length} of ${files.length} files have run`);
      for (const { file, failed } of results)
        for (const { title, error } of failed) say(`${name}: ${file}: ${title}\n${error}`);
      isWhole &&= results.length === files.length && results.every(({ failed }) => failed.length === 0);
    }
  };
  try {
    await Promise.all(Array.from({ length: GUESTS_AT_ONCE }, runLeft));
  } finally {
    process.stdout.write(formatTable(kernels.flatMap((kernel) => rows.get(kernel) ?? [])));
  }
  for (const root of roots.values()) rmSync(root);
  return isWhole ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
