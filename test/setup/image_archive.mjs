/**
 * The description of the one image in an OCI archive (OCI image specification).
 *
 * @typedef {object} ArchivedImage
 * @property {string} digest of the manifest, or of the index of several
 * @property {string} name by the reference in the index
 * @property {readonly ImageVariant[]} variants one for each processor
 */

/**
 * @typedef {object} ImageVariant
 * @property {ImageConfig} config
 * @property {readonly { digest: string, size: number }[]} layers compressed
 */

/**
 * @typedef {object} ImageConfig
 * @property {string} architecture
 * @property {string} created
 * @property {{ Env: readonly string[], Entrypoint: readonly string[], Labels: Record<string, string>, User: string }} config
 */

const BLOCK = 512;

/**
 * Reads an archive.
 *
 * @param {Buffer} archive
 * @returns {ArchivedImage}
 */
export function readArchive(archive) {
  const files = tarFiles(archive);
  /**
   * @param {string} digest
   * @returns {unknown}
   */
  const blob = (digest) => JSON.parse(textOf(files, `blobs/${digest.replace(":", "/")}`));
  const index = /** @type {{ manifests: readonly [{ digest: string, annotations?: Record<string, string> }] }} */ (
    JSON.parse(textOf(files, "index.json"))
  );
  const [{ digest, annotations = {} }] = index.manifests;
  const top = /** @type {{ manifests?: readonly { digest: string }[] }} */ (blob(digest));
  const variants = (top.manifests ?? [{ digest }]).map((manifest) => {
    const { config, layers } = /** @type {{ config: { digest: string }, layers: ImageVariant["layers"] }} */ (
      blob(manifest.digest)
    );
    return { config: /** @type {ImageConfig} */ (blob(config.digest)), layers };
  });
  return { digest, name: annotations["org.opencontainers.image.ref.name"] ?? "", variants };
}

/**
 * @param {ReadonlyMap<string, Buffer>} files
 * @param {string} name
 */
function textOf(files, name) {
  const content = files.get(name);
  if (content === undefined) throw new Error(`${name} is not in the archive`);
  return content.toString("utf8");
}

/**
 * Returns the files of a tar archive with short names, by their names.
 *
 * @param {Buffer} archive
 * @returns {ReadonlyMap<string, Buffer>}
 */
function tarFiles(archive) {
  const files = new Map();
  for (let at = 0; at + BLOCK <= archive.length && archive[at] !== 0;) {
    const name = archive.toString("latin1", at, at + 100).replace(/\0.*$/s, "");
    const size = Number.parseInt(archive.toString("latin1", at + 124, at + 136), 8);
    files.set(name, archive.subarray(at + BLOCK, at + BLOCK + size));
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}
