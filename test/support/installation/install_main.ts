import process from "node:process";
import { hostFiles } from "../../../policyd/installation/host_files.ts";
import { Installer } from "../../../policyd/installation/installer.ts";

// Installs one version after the other, on and on, until it is killed: SOURCES are directories, each with its configuration.
const [binaries = "", configurations = "", ...sources] = process.argv.slice(2);

for (let turn = process.pid; ; turn++) {
  const source = sources[turn % sources.length] ?? "";
  const installer = new Installer(hostFiles, { source, binaries, configurations });
  for (const directory of [binaries, configurations]) await hostFiles.makeDirectory(directory);
  await installer.removeLeftovers();
  await installer.installExecutables();
  const text = Buffer.from((await hostFiles.read(`${source}/configuration`)) ?? []).toString();
  await installer.installConfiguration(text);
  process.stdout.write(".");
}
