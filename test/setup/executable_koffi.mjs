import { Buffer } from "node:buffer";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { getRawAsset } from "node:sea";

/**
 * Stands for koffi in the executable of the command line, which contains koffi's native part. The kernel loads code from
 * a file only: it is written, loaded and removed.
 *
 * /tmp may be mounted without the right to execute, but the executable's own directory is not.
 */
const directories = [os.tmpdir(), path.dirname(process.execPath)];

/** @param {string} place a directory @returns {unknown} koffi */
function loadIn(place) {
  const directory = mkdtempSync(path.join(place, "drawbridge-"));
  try {
    const file = path.join(directory, "koffi.node");
    writeFileSync(file, Buffer.from(getRawAsset("koffi.node")));
    const loaded = { exports: {} };
    process.dlopen(loaded, file);
    return loaded.exports;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function load() {
  for (const place of directories) {
    try {
      return loadIn(place);
    } catch {
      // The next directory may do.
    }
  }
  throw new Error(
    `no code can be loaded from ${directories.join(" or ")}: set TMPDIR to a directory whose files may be executed`,
  );
}

// oxlint-disable-next-line import/no-default-export -- as koffi has it
export default load();
