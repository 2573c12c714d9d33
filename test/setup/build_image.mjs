import { createHash } from "node:crypto";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { outputOf } from "./child.mjs";
import { packDirectory } from "./archive.mjs";
import { SetupFailure, say } from "./failure.mjs";
import { imageFiles } from "./image_files.mjs";

/** @typedef {import("./image_files.mjs").ImageFile} ImageFile */

/** An OCI archive, which `ctr images import`, `podman load` and `skopeo copy oci-archive:` read. */
export const IMAGE = "dist/drawbridge-image.tar";
const STAMP = "dist/.image-inputs";
const CONTAINERFILE = "manifests/image/Containerfile";

/**
 * Makes {@link IMAGE} with buildah from the output of `npm run build`, unless it was made from exactly that. Nothing is
 * pulled.
 *
 * The same files give the same bytes: names are sorted, times are 0, owners are root.
 *
 * @param {string} project absolute path of the project
 * @returns {string} the image's name
 * @throws {SetupFailure} when buildah cannot make it
 */
export function buildImage(project) {
  const { version } = /** @type {{ version: string }} */ (
    JSON.parse(readFileSync(path.join(project, "package.json"), "utf8"))
  );
  const name = `localhost/drawbridge:${version}`;
  const files = imageFiles(project, process.arch, path.join(project, "dist"));
  const stamp = path.join(project, STAMP);
  const inputs = hashOfFiles(files, [path.join(project, CONTAINERFILE), fileURLToPath(import.meta.url)]);
  const archive = path.join(project, IMAGE);
  if (existsSync(archive) && existsSync(stamp) && readFileSync(stamp, "utf8") === inputs) return name;

  say(`building ${IMAGE}`);
  const variants = [{ architecture: process.arch, files }];
  makeImage(project, { name, variants, labels: { "org.opencontainers.image.version": version } }, archive);
  writeFileSync(stamp, inputs);
  return name;
}

/**
 * An image for one processor or several.
 *
 * @typedef {object} ImagePlan
 * @property {string} name
 * @property {readonly { architecture: string, files: readonly ImageFile[] }[]} variants
 * @property {Readonly<Record<string, string>>} labels
 */

/**
 * Makes an OCI archive with buildah: of several variants, an index. Nothing is pulled, and nothing is executed, so the
 * processor of this machine makes no difference.
 *
 * @param {string} project absolute path of the project
 * @param {ImagePlan} plan
 * @param {string} archive
 * @throws {SetupFailure} when buildah cannot make it
 */
export function makeImage(project, { name, variants, labels }, archive) {
  if (process.getuid?.() !== 0) throw new SetupFailure("the image is built as root, whose files are in it");
  const work = mkdtempSync(path.join(os.tmpdir(), "drawbridge-image-"));
  const removeCache = cacheRemover();
  const driver = readFileSync("/proc/filesystems", "utf8").includes("\toverlay\n") ? "overlay" : "vfs";
  const state = ["--storage-driver", driver, "--root", path.join(work, "root"), "--runroot", path.join(work, "run")];
  const buildah = (/** @type {string[]} */ ...args) => run("buildah", [...state, ...args]);
  try {
    const fixed = ["--timestamp", "0", "--pull-never", "--isolation", "chroot", "--layers", "--format", "oci"];
    const labelled = Object.entries(labels).flatMap(([label, value]) => ["--label", `${label}=${value}`]);
    const file = ["--file", path.join(project, CONTAINERFILE)];
    const tags = variants.map(({ architecture, files }) => {
      const context = path.join(work, `context-${architecture}`);
      for (const each of files) place(each, context);
      const platform = `linux/${ociArchitecture(architecture)}`;
      const tag = variants.length === 1 ? name : `${name}-${ociArchitecture(architecture)}`;
      buildah("build", ...fixed, ...labelled, "--platform", platform, "--tag", tag, ...file, context);
      return tag;
    });
    const layout = path.join(work, "layout");
    if (variants.length === 1) buildah("push", name, `oci:${layout}:${name}`);
    else {
      buildah("manifest", "create", name);
      for (const tag of tags) buildah("manifest", "add", name, tag);
      buildah("manifest", "push", "--all", name, `oci:${layout}:${name}`);
    }
    packDirectory(layout, archive);
  } finally {
    rmSync(work, { recursive: true, force: true });
    removeCache();
  }
}

/** Returns the name of a processor in images. @param {string} architecture as `process.arch` */
export function ociArchitecture(architecture) {
  return architecture === "x64" ? "amd64" : architecture;
}

/** The directory in which buildah remembers layers of registries, wherever its storage is. */
const CACHE = "/var/lib/containers/cache";

/**
 * Prepares the removal of buildah's cache.
 *
 * @returns {() => void} removes the cache and its directories, except those that existed before or have other contents
 */
function cacheRemover() {
  const made = [CACHE, path.dirname(CACHE)].filter((directory) => !existsSync(directory));
  return () => {
    if (made.includes(CACHE)) rmSync(path.join(CACHE, "blob-info-cache-v1.boltdb"), { force: true });
    for (const directory of made) {
      if (existsSync(directory) && readdirSync(directory).length === 0) rmdirSync(directory);
    }
  };
}

/**
 * Puts a file into the build's context, with its final permissions, regardless of the process's umask.
 *
 * @param {ImageFile} file
 * @param {string} context
 */
function place({ layer, source, target, isExecutable, link }, context) {
  const destination = path.join(context, layer, target);
  for (const directory of ancestors(path.join(context, layer), path.dirname(destination))) {
    mkdirSync(directory, { recursive: true });
    chmodSync(directory, 0o755);
  }
  if (link !== undefined) return symlinkSync(link, destination);
  cpSync(source, destination);
  chmodSync(destination, isExecutable ? 0o755 : 0o644);
}

/**
 * Returns the directories from `top` down to `directory`, including both.
 *
 * @param {string} top
 * @param {string} directory
 * @returns {readonly string[]}
 */
function ancestors(top, directory) {
  return directory === top ? [top] : [...ancestors(top, path.dirname(directory)), directory];
}

/**
 * @param {readonly ImageFile[]} files
 * @param {readonly string[]} recipes
 * @returns {string}
 */
function hashOfFiles(files, recipes) {
  const hash = createHash("sha256");
  for (const { layer, source, target, isExecutable, link } of files) {
    hash.update(`${layer}\0${target}\0${isExecutable}\0${link ?? statSync(source).size}\0`);
    if (link === undefined) hash.update(readFileSync(source));
  }
  for (const recipe of recipes) hash.update(readFileSync(recipe));
  return `${hash.digest("hex")}\n`;
}

/**
 * @param {string} command
 * @param {readonly string[]} args
 */
function run(command, args) {
  // Root's own configuration must not change the result.
  const env = { PATH: process.env["PATH"], LC_ALL: "C", SOURCE_DATE_EPOCH: "0" };
  outputOf(command, args, `${command} could not make the image`, { env, lines: 5 });
}
