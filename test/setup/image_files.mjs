import { spawnSync } from "node:child_process";
import { existsSync, globSync, lstatSync, readFileSync, readdirSync, readlinkSync, realpathSync } from "node:fs";
import path from "node:path";
import { SetupFailure } from "./failure.mjs";

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
 * @param {string} node absolute path of the packaged Node
 * @returns {readonly ImageFile[]} by target
 * @throws {SetupFailure} when one of them is missing
 */
export function imageFiles(project, node) {
  const files = [
    ...libraries([node, ...globSync(path.join(project, "dist/policyd/**/*.node"))]),
    file("node", node, "usr/bin/node", true),
    ...below("plugin", path.join(project, "dist/cni"), `${HOME}/cni`),
    ...below("programs", path.join(project, "dist/policyd"), `${HOME}/policyd`),
    ...below("programs", path.join(project, "dist/cli"), `${HOME}/cli`),
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
 * Returns the libraries in the output of ldd, by the path under which the loader finds them.
 *
 * @param {string} text
 * @returns {readonly string[]}
 */
export function linkedLibraries(text) {
  return [...text.matchAll(/^\s+(?:\S+ => )?(\/\S+) \(0x/gm)].map(([, library = ""]) => library);
}

/**
 * @param {readonly string[]} programs
 * @returns {ImageFile[]}
 */
function libraries(programs) {
  const result = spawnSync("ldd", programs, { stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
  if (result.status !== 0)
    throw new SetupFailure(`ldd ${programs.join(" ")}: ${result.error?.message ?? result.stderr}`);
  const found = [...new Set(linkedLibraries(result.stdout))];
  return found.map((library) => file("libraries", realpathSync(library), library.slice(1), true));
}

/**
 * @param {string} project
 * @param {string} node
 * @returns {ImageFile[]}
 */
function licences(project, node) {
  const ofNode = path.join(path.dirname(node), "../LICENSE");
  return [
    ...DEBIAN_PACKAGES.map((name) =>
      file("libraries", `/usr/share/doc/${name}/copyright`, `${DOCUMENTS}/${name}/copyright`, false),
    ),
    file("node", ofNode, `${DOCUMENTS}/node/LICENSE`, false),
    file("programs", path.join(project, "LICENSE"), `${DOCUMENTS}/drawbridge/LICENSE`, false),
    ...bundledPackages(project).flatMap((name) => {
      const directory = path.join(project, "node_modules", name);
      const texts = readdirSync(directory).filter((entry) => /^licen[cs]e/i.test(entry));
      return texts.map((text) =>
        file("programs", path.join(directory, text), `${DOCUMENTS}/drawbridge/packages/${name}/${text}`, false),
      );
    }),
  ];
}

/**
 * Returns the names of the npm packages that may be in the bundles.
 *
 * @param {string} project
 * @returns {readonly string[]}
 */
function bundledPackages(project) {
  const lock =
    /** @type {{ packages: Record<string, { dev?: boolean, devOptional?: boolean, optional?: boolean }> }} */ (
      JSON.parse(readFileSync(path.join(project, "package-lock.json"), "utf8"))
    );
  return Object.entries(lock.packages)
    .filter(([place, { dev, devOptional, optional }]) => place !== "" && !dev && !devOptional && !optional)
    .map(([place]) => place.replace(/^node_modules\//, ""))
    .filter((name) => existsSync(path.join(project, "node_modules", name)));
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
