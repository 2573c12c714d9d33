import { createHash } from "node:crypto";
import { existsSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { outputOf } from "./child.mjs";
import { CACHE } from "./debian.mjs";
import { SetupFailure, say } from "./failure.mjs";
import { npmCommand } from "./packages.mjs";
import { makeWhole } from "./whole_directory.mjs";

/**
 * A package of npm's registry.
 *
 * @typedef {object} NpmPackage
 * @property {string} name
 * @property {string} version
 * @property {string} integrity its hash, as in package-lock.json
 */

/**
 * Returns the directory of an unpacked package, for those that `npm ci` does not install on this machine: other versions
 * and other processors. Fetches it where the user's cache does not have it.
 *
 * @param {NpmPackage} wanted
 * @returns {string}
 * @throws {SetupFailure} when it cannot be fetched, or has another hash
 */
export function npmPackage({ name, version, integrity }) {
  const directory = path.join(CACHE, `npm-${name.replace("/", "-")}-${version}`);
  if (existsSync(directory)) return directory;
  say(`fetching ${name} ${version} from npm`);
  makeWhole(directory, (unfinished) => {
    const npm = npmCommand(process.execPath);
    const args = [...npm.args, "pack", "--ignore-scripts", "--silent", `${name}@${version}`];
    const file = outputOf(npm.command, args, `npm could not fetch ${name} ${version}`, { cwd: unfinished }).trim();
    const archive = path.join(unfinished, file);
    const hash = `sha512-${createHash("sha512").update(readFileSync(archive)).digest("base64")}`;
    if (hash !== integrity) throw new SetupFailure(`${name} ${version} has the hash ${hash}; expected ${integrity}`);
    outputOf("tar", ["-xzf", archive, "-C", unfinished, "--strip-components=1"], `tar could not unpack ${file}`);
    rmSync(archive);
  });
  return directory;
}

/**
 * Returns a package of package-lock.json.
 *
 * @param {string} project absolute path of the project
 * @param {string} name
 * @returns {NpmPackage & { license?: string }}
 * @throws {SetupFailure} when it is not in package-lock.json
 */
export function lockedPackage(project, name) {
  const { packages } = /** @type {{ packages: Record<string, Omit<NpmPackage, "name"> | undefined> }} */ (
    JSON.parse(readFileSync(path.join(project, "package-lock.json"), "utf8"))
  );
  const locked = packages[`node_modules/${name}`];
  if (locked === undefined) throw new SetupFailure(`package-lock.json has no ${name}`);
  return { ...locked, name };
}

/**
 * Returns the directory of a package of package-lock.json: the installed one, or that of another processor from the
 * user's cache.
 *
 * @param {string} project absolute path of the project
 * @param {string} name
 * @returns {string}
 * @throws {SetupFailure} when it is not in package-lock.json or cannot be fetched
 */
export function installedPackage(project, name) {
  const installed = path.join(project, "node_modules", name);
  return existsSync(installed) ? installed : npmPackage(lockedPackage(project, name));
}
