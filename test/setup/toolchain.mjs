import { accessSync, chmodSync, constants, existsSync, statSync } from "node:fs";
import path from "node:path";
import { SetupFailure } from "./failure.mjs";

/** The first Node with stable type stripping, so that it runs our .ts files without a flag or a warning. */
export const OLDEST_NODE = "24.12.0";

/**
 * @typedef {object} Toolchain
 * @property {string} node absolute path of a Node of at least {@link OLDEST_NODE}
 */

/**
 * Whether `version` is `oldest` or newer. Both have the form "24.12.0" or "v24.12.0"; a pre-release counts as its
 * release.
 *
 * @param {string} version
 * @param {string} oldest
 * @returns {boolean}
 */
export function isAtLeast(version, oldest) {
  const have = parts(version);
  const need = parts(oldest);
  for (let index = 0; index < need.length; index++) {
    const difference = (have[index] ?? 0) - (need[index] ?? 0);
    if (difference !== 0) return difference > 0;
  }
  return true;
}

/**
 * Returns the toolchain of this machine, after making it executable: the running Node if it is new enough, otherwise
 * the packaged one.
 *
 * @param {string} project absolute path of the project
 * @returns {Toolchain}
 * @throws {SetupFailure} when the machine is not supported or node_modules lacks a part
 */
export function findToolchain(project) {
  const { platform, arch } = process;
  if (platform !== "linux" || (arch !== "x64" && arch !== "arm64")) {
    throw new SetupFailure(
      `this machine is ${platform} on ${arch}; Drawbridge runs on Linux on x64 and arm64 only. ` +
        "On another machine use a Linux virtual machine.",
    );
  }
  const packaged = path.join(project, `node_modules/node-linux-${arch}/bin/node`);
  const node = isAtLeast(process.versions.node, OLDEST_NODE) ? process.execPath : packaged;
  if (!existsSync(node)) {
    throw new SetupFailure(
      `${path.relative(project, node)} is missing. npm leaves an optional package out without a word when its ` +
        "download fails or the option `omit=optional` is set: remove node_modules and run the command again.",
    );
  }
  makeExecutable(node);
  return { node };
}

/** @param {string} file */
function makeExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
  } catch {
    chmodSync(file, statSync(file).mode | 0o111);
  }
}

/** @param {string} version */
function parts(version) {
  return version
    .replace(/^v/, "")
    .split(".")
    .map((part) => Number.parseInt(part, 10));
}
