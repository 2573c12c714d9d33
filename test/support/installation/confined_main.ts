import process from "node:process";
import type { Removal } from "../../../cli/node/cleanup/removal.ts";
import { carryOut } from "../../../cli/node/cleanup/carry_out.ts";
import { remove } from "../../../cli/node/machine/remove.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { realClock } from "../../../policyd/lib/clock.ts";
import { hostFiles } from "../../../policyd/installation/host_files.ts";
import { Installer } from "../../../policyd/installation/installer.ts";
import { ListFile } from "../../../policyd/installation/list_file.ts";
import { ownPartNamed } from "./own_part.ts";

// Installs once, or carries out removals of files, and prints the outcome: `install SOURCE BINARIES CONFIGURATIONS`,
// `remove JSON`.
const [verb = "", first = "", binaries = "", configurations = ""] = process.argv.slice(2);

async function install(): Promise<object> {
  const installer = new Installer(hostFiles, { source: first, binaries, configurations });
  for (const directory of [binaries, configurations]) await hostFiles.makeDirectory(directory);
  await installer.removeLeftovers();
  const written = await installer.installExecutable();
  const list = new ListFile(hostFiles, configurations, realClock);
  const { kind, replaced } = await list.reconcile(ownPartNamed("drawbridge"));
  await installer.removeDetachList();
  return { written, kind, replaced };
}

function removeAll(removals: readonly Removal[]): object {
  const syscalls = nodeSyscalls();
  return carryOut({ remove: (removal) => remove(syscalls, removal) }, removals).map(({ failure }) => failure ?? "");
}

const outcome = verb === "install" ? await install() : removeAll(JSON.parse(first) as readonly Removal[]);
process.stdout.write(JSON.stringify(outcome));
