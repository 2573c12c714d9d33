import process from "node:process";
import { hostFiles } from "../../../policyd/installation/host_files.ts";
import { Installer } from "../../../policyd/installation/installer.ts";
import { ListFile } from "../../../policyd/installation/list_file.ts";
import { realClock } from "../../../policyd/lib/clock.ts";
import { ownPartNamed } from "./own_part.ts";

// Installs one version after the other until it is killed: SOURCES are directories whose last name is the version.
const PADDING = "#".repeat(100 * 1024);
const [binaries = "", configurations = "", ...sources] = process.argv.slice(2);

for (let turn = process.pid; ; turn++) {
  const source = sources[turn % sources.length] ?? "";
  const installer = new Installer(hostFiles, { source, binaries, configurations });
  for (const directory of [binaries, configurations]) await hostFiles.makeDirectory(directory);
  await installer.removeLeftovers();
  await installer.installExecutable();
  const list = new ListFile(hostFiles, configurations, realClock);
  await list.reconcile(ownPartNamed(source.split("/").at(-1) ?? "", { padding: PADDING }));
  process.stdout.write(".");
}
