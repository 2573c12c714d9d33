import { Buffer } from "node:buffer";
import { stringify } from "yaml";
import { SetupFailure } from "../failure.mjs";

/**
 * A release of Drawbridge.
 *
 * @typedef {object} Release
 * @property {string} version
 * @property {string} commit
 * @property {Date} date of the commit
 * @property {string} repository of the image, without a tag
 * @property {string} digest of the image
 * @property {string} url below which its files can be downloaded
 */

/** @typedef {{ name: string, version: string, purl: string, license?: string, sha512?: string }} Part something that it contains */

/** Returns the build that `--version` names (policyd/version.ts). @param {Pick<Release, "commit" | "date">} release */
export function buildOf({ commit, date }) {
  const isDirty = commit.endsWith("-dirty");
  return `${commit.slice(0, 12)}${isDirty ? "-dirty" : ""}.${date.toISOString().slice(0, 10).replaceAll("-", "")}`;
}

/**
 * Returns the image's labels (OCI image specification, annotations).
 *
 * @param {Pick<Release, "version" | "commit" | "date">} release
 */
export function labelsOf({ version, commit, date }) {
  const labels = { version, revision: commit, created: date.toISOString() };
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [`org.opencontainers.image.${name}`, value]));
}

/**
 * Returns a manifest or a kustomization with the release's image in place of the local one.
 *
 * @param {Release} release
 * @param {string} text
 * @throws {SetupFailure} when the local image is not in it
 */
export function withImage({ version, repository, digest }, text) {
  const local = "localhost/drawbridge";
  const pinned = text
    .replaceAll(`image: ${local}:${version}`, `image: ${repository}@${digest}`)
    .replaceAll(
      new RegExp(`newName: ${local}\\n( *)newTag: ${version.replaceAll(".", "\\.")}`, "g"),
      `newName: ${repository}\n$1digest: ${digest}`,
    );
  if (pinned === text) throw new SetupFailure(`a manifest does not name ${local} in version ${version}`);
  return pinned;
}

/**
 * Returns the package.json of the command line's npm package. koffi's native part is a package of its own for each
 * processor.
 *
 * @param {Release} release
 * @param {{ license: string, description: string, engines: object, koffi: string }} project
 */
export function npmManifest({ version }, { license, description, engines, koffi }) {
  return {
    name: "drawbridge",
    version,
    description,
    license,
    type: "module",
    bin: { drawbridge: "drawbridge.js", "kubectl-drawbridge": "drawbridge.js" },
    engines,
    optionalDependencies: { "@koromix/koffi-linux-x64": koffi, "@koromix/koffi-linux-arm64": koffi },
  };
}

/**
 * Returns the manifest with which krew installs `kubectl drawbridge`.
 *
 * @param {Release} release
 * @param {readonly { architecture: string, file: string, sha256: string }[]} archives of the executables
 */
export function krewManifest({ version, url }, archives) {
  return stringify({
    apiVersion: "krew.googlecontainertools.github.com/v1alpha2",
    kind: "Plugin",
    metadata: { name: "drawbridge" },
    spec: {
      version: `v${version}`,
      homepage: url.replace(/\/releases\/.*$/, ""),
      shortDescription: "Explains network policies and Services",
      description:
        "Says who reaches whom, why a connection is allowed or denied, and what a change of policies opens and cuts, " +
        "from manifests or a cluster.",
      platforms: archives.map(({ architecture, file, sha256 }) => ({
        selector: { matchLabels: { os: "linux", arch: architecture } },
        uri: `${url}/${file}`,
        sha256,
        bin: "drawbridge",
      })),
    },
  });
}

/**
 * Returns the list of everything that the release contains, in CycloneDX's form.
 *
 * @param {Release} release
 * @param {readonly Part[]} parts
 */
export function billOfMaterials({ version, date }, parts) {
  const component = (/** @type {Part} */ { name, version: of, purl, license, sha512 }) => ({
    type: "library",
    "bom-ref": purl,
    name,
    version: of,
    purl,
    ...(license === undefined ? {} : { licenses: [{ expression: license }] }),
    ...(sha512 === undefined ? {} : { hashes: [{ alg: "SHA-512", content: sha512 }] }),
  });
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.6",
    version: 1,
    metadata: {
      timestamp: date.toISOString(),
      component: { type: "application", "bom-ref": "drawbridge", name: "drawbridge", version },
    },
    components: parts.map(component),
  };
}

/**
 * Returns an npm package as a part of the release.
 *
 * @param {{ name: string, version: string, integrity: string, license?: string }} locked
 * @returns {Part}
 */
export function npmPart({ name, version, integrity, ...rest }) {
  const license = rest.license === undefined ? {} : { license: rest.license };
  const sha512 = Buffer.from(integrity.replace(/^sha512-/, ""), "base64").toString("hex");
  return { name, version, purl: `pkg:npm/${name.replace("@", "%40")}@${version}`, ...license, sha512 };
}

/**
 * Returns what the changelog says about a version.
 *
 * @param {string} changelog
 * @param {string} version
 * @throws {SetupFailure} when it says nothing
 */
export function notesOf(changelog, version) {
  const [, ...sections] = changelog.split(/^## /m);
  const section = sections.find((one) => one.startsWith(`[${version}]`));
  if (section === undefined) throw new SetupFailure(`CHANGELOG.md has no section [${version}]`);
  return section.replace(/^.*\n+/, "");
}
