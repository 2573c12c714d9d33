import { readdirSync, renameSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { outputOf } from "./child.mjs";

/**
 * Packs the files of a directory. The same files give the same bytes: names are sorted, times are those of the epoch,
 * owners are root.
 *
 * @param {string} directory
 * @param {string} archive compressed if its name ends in gz
 */
export function packDirectory(directory, archive) {
  const unfinished = `${archive}.${process.pid}.tmp`;
  const same = ["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];
  const compression = archive.endsWith("gz") ? ["--use-compress-program=gzip -n -9"] : [];
  const args = [...same, ...compression, "-cf", unfinished, "-C", directory, ...readdirSync(directory).sort()];
  outputOf("tar", args, `tar could not pack ${path.basename(archive)}`, { lines: 5 });
  renameSync(unfinished, archive);
}
