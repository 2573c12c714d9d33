import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { IMAGE, buildImage } from "./build_image.mjs";
import { SetupFailure, say } from "./failure.mjs";
import { readArchive } from "./image_archive.mjs";
import { LAYERS } from "./image_files.mjs";

const PROJECT = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

try {
  const name = buildImage(PROJECT);
  const archive = path.join(PROJECT, IMAGE);
  const { variants, digest } = readArchive(readFileSync(archive));
  for (const [at, { size }] of variants[0]?.layers.entries() ?? [])
    process.stdout.write(`${megabytes(size).padStart(9)}  ${LAYERS[at]}\n`);
  process.stdout.write(`${megabytes(statSync(archive).size).padStart(9)}  ${IMAGE}: ${name} ${digest}\n`);
} catch (error) {
  if (!(error instanceof SetupFailure)) throw error;
  say(error.message);
  process.exitCode = 1;
}

/** @param {number} bytes */
function megabytes(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
