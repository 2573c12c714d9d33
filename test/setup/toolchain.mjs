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
 * Returns the path in node_modules of the Node for a machine.
 *
 * @param {string} platform as `process.platform`
 * @param {string} architecture as `process.arch`
 * @returns {string} relative to the project
 * @throws {SetupFailure} when the machine is not supported
 */
export function packagedNode(platform, architecture) {
  if (platform !== "linux" || (architecture !== "x64" && architecture !== "arm64")) {
    throw new SetupFailure(
      `this machine is ${platform} on ${architecture}; Drawbridge runs on Linux on x64 and arm64 only. ` +
        "On another machine use a Linux virtual machine.",
    );
  }
  return `node_modules/node-linux-${architecture}/bin/node`;
}

/**
 * Returns the Node to run the project with: the running one if it is new enough, otherwise the packaged one.
 *
 * @param {{ version: string, path: string }} running
 * @param {string} packaged
 * @returns {string}
 */
export function chooseNode(running, packaged) {
  return isAtLeast(running.version, OLDEST_NODE) ? running.path : packaged;
}

/**
 * Returns the toolchain of this machine, after making it executable.
 *
 * @param {string} project absolute path of the project
 * @returns {Toolchain}
 * @throws {SetupFailure} when the machine is not supported or node_modules lacks a part
 */
export function findToolchain(project) {
  const packaged = packagedNode(process.platform, process.arch);
  const running = { version: process.versions.node, path: process.execPath };
  const node = chooseNode(running, path.join(project, packaged));
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
