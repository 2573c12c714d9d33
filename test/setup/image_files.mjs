import { existsSync, globSync, lstatSync, readFileSync, readdirSync, readlinkSync, realpathSync } from "node:fs";
import path from "node:path";
import { outputOf } from "./child.mjs";
import { unpackedForeign } from "./debian.mjs";
import { SetupFailure } from "./failure.mjs";
import { installedPackage } from "./npm_package.mjs";

/**
 * One file of the image; with `link`, a symbolic link.
 *
 * @typedef {object} ImageFile
 * @property {string} layer a directory of the build's context
 * @property {string} target path in the image, without the leading slash
 * @property {string} source absolute path
 * @property {boolean} isExecutable
 * @property {string | undefined} link the target of the link
 */

/** The layers, in the order of the Containerfile. */
export const LAYERS = ["libraries", "node", "plugin", "programs"];

const HOME = "opt/drawbridge";
const DOCUMENTS = "usr/share/doc";
/** The packages of the libraries that Node and the plugin are linked to. */
const DEBIAN_PACKAGES = ["libc6", "libgcc-s1", "libstdc++6"];

/**
 * Returns the files of the image: Node 24 with the libraries it is linked to (and the program that loads them), the
 * plugin, the daemon, the command line, and all licences.
 *
 * @param {string} project absolute path of the project
 * @param {string} architecture as `process.arch`
 * @param {string} built the directory with `cni`, `policyd` and `cli` for that processor
 * @returns {readonly ImageFile[]} by target
 * @throws {SetupFailure} when one of them is missing
 */
export function imageFiles(project, architecture, built) {
  const node = path.join(installedPackage(project, `node-linux-${architecture}`), "bin/node");
  const files = [
    ...libraries([node, ...globSync(path.join(built, "policyd/**/*.node"))], architecture),
    file("node", node, "usr/bin/node", true),
    ...below("plugin", path.join(built, "cni"), `${HOME}/cni`),
    ...below("programs", path.join(built, "policyd"), `${HOME}/policyd`),
    ...below("programs", path.join(built, "cli"), `${HOME}/cli`),
    ...licences(project, node),
  ];
  const missing = files.filter(({ source }) => lstatSync(source, { throwIfNoEntry: false }) === undefined);
  if (missing.length > 0) {
    throw new SetupFailure(
      `${missing.map(({ source }) => source).join(", ")} missing: the image cannot be made without`,
    );
  }
  return files.sort((one, other) => (one.target < other.target ? -1 : 1));
}

/**
 * Returns a directory with Debian's packages of the libraries for a processor, in the versions that this machine has.
 *
 * @param {string} architecture as `process.arch`
 * @returns {string}
 * @throws {SetupFailure} when they cannot be fetched
 */
export function debianLibraries(architecture) {
  return unpackedForeign(
    debianVersions().map(({ name, version }) => `${name}=${version}`),
    architecture,
  );
}

/** Returns the packages of the libraries, and their versions on this machine. */
export function debianVersions() {
  return DEBIAN_PACKAGES.map((name) => {
    const show = ["--show", "--showformat=${Version}\n", name];
    const [version = ""] = outputOf("dpkg-query", show, `${name} is not installed`).split("\n");
    return { name, version };
  });
}

/**
 * Returns what readelf says that a program needs.
 *
 * @param {string} text
 * @returns {{ loader: string | undefined, libraries: readonly string[] }} the path of what loads it, and names
 */
export function neededBy(text) {
  const [, loader] = /program interpreter: (\S+)\]/.exec(text) ?? [];
  return { loader, libraries: [...text.matchAll(/\(NEEDED\).*\[(.+)\]/g)].map(([, name = ""]) => name) };
}

/**
 * Returns all libraries that programs need, under the paths where the loader finds them, and the loader.
 *
 * @param {readonly string[]} programs
 * @param {string} architecture
 * @returns {ImageFile[]}
 */
function libraries(programs, architecture) {
  const directory = `lib/${architecture === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`;
  const root = debianLibraries(architecture);
  const sourceOf = (/** @type {string} */ name) =>
    [directory, `usr/${directory}`].map((place) => path.join(root, place, name)).find((place) => existsSync(place));
  /** @type {Map<string, string>} source by target */
  const found = new Map();
  const open = [...programs];
  for (const program of open) {
    const text = outputOf("readelf", ["--dynamic", "--program-headers", "--wide", program], "readelf failed");
    const { loader, libraries: names } = neededBy(text);
    const targets = names.filter((name) => !name.startsWith("ld-linux")).map((name) => `${directory}/${name}`);
    for (const target of loader === undefined ? targets : [...targets, loader.slice(1)]) {
      const source = sourceOf(path.basename(target));
      if (source === undefined) throw new SetupFailure(`${program} needs ${target}, which ${root} does not have`);
      if (!found.has(target)) open.push(source);
      found.set(target, source);
    }
  }
  return [...found].map(([target, source]) => file("libraries", realpathSync(source), target, true));
}

/**
 * Returns the licences of everything that is in the image.
 *
 * @param {string} project
 * @param {string} node
 * @returns {ImageFile[]}
 */
export function licences(project, node) {
  const ofNode = path.join(path.dirname(node), "../LICENSE");
  return [
    ...DEBIAN_PACKAGES.map((name) =>
      file("libraries", `/usr/share/doc/${name}/copyright`, `${DOCUMENTS}/${name}/copyright`, false),
    ),
    file("node", ofNode, `${DOCUMENTS}/node/LICENSE`, false),
    file("programs", path.join(project, "LICENSE"), `${DOCUMENTS}/drawbridge/LICENSE`, false),
    ...bundledPackages(project).flatMap(({ name }) => {
      const directory = path.join(project, "node_modules", name);
      const texts = readdirSync(directory).filter((entry) => /^licen[cs]e/i.test(entry));
      return texts.map((text) =>
        file("programs", path.join(directory, text), `${DOCUMENTS}/drawbridge/packages/${name}/${text}`, false),
      );
    }),
  ];
}

/**
 * A package in package-lock.json.
 *
 * @typedef {{ version: string, integrity: string, license?: string, dev?: boolean, devOptional?: boolean, optional?: boolean }} LockedPackage
 */

/**
 * Returns the npm packages that may be in the bundles.
 *
 * @param {string} project
 * @returns {readonly (LockedPackage & { name: string })[]}
 */
export function bundledPackages(project) {
  const lock = /** @type {{ packages: Record<string, LockedPackage> }} */ (
    JSON.parse(readFileSync(path.join(project, "package-lock.json"), "utf8"))
  );
  return Object.entries(lock.packages)
    .filter(([place, { dev, devOptional, optional }]) => place !== "" && !dev && !devOptional && !optional)
    .map(([place, locked]) => ({ ...locked, name: place.replace(/^node_modules\//, "") }))
    .filter(({ name }) => existsSync(path.join(project, "node_modules", name)));
}

/**
 * @param {string} layer
 * @param {string} directory
 * @param {string} target
 * @returns {ImageFile[]}
 */
function below(layer, directory, target) {
  if (!existsSync(directory)) throw new SetupFailure(`${directory} is missing: run \`npm run build\``);
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const source = path.join(directory, entry.name);
    if (entry.isDirectory()) return below(layer, source, `${target}/${entry.name}`);
    const isExecutable = entry.isFile() && (lstatSync(source).mode & 0o100) !== 0;
    return [file(layer, source, `${target}/${entry.name}`, isExecutable)];
  });
}

/**
 * @param {string} layer
 * @param {string} source
 * @param {string} target
 * @param {boolean} isExecutable
 * @returns {ImageFile}
 */
function file(layer, source, target, isExecutable) {
  const isLink = lstatSync(source, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
  return { layer, source, target, isExecutable, link: isLink ? readlinkSync(source) : undefined };
}
