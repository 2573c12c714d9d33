import { CniError, CniErrorCode, showValue } from "./error.ts";

/** Every released version of the CNI specification, oldest first. */
export const supportedVersions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

export type CniVersion = (typeof supportedVersions)[number];

/** Returns the output of the VERSION verb (CNI specification, "VERSION: probe plugin version support"). */
export function versionResult(): string {
  return JSON.stringify({ cniVersion: "1.1.0", supportedVersions });
}

/**
 * Returns the version that a configuration asks for; an absent or empty one means 0.1.0, as in the reference library.
 *
 * @throws CniError 1 when this plugin does not support it
 */
export function negotiateVersion(requested: unknown): CniVersion {
  if (requested === undefined || requested === null || requested === "") return "0.1.0";
  for (const version of supportedVersions) if (version === requested) return version;
  throw new CniError(
    CniErrorCode.INCOMPATIBLE_VERSION,
    "incompatible CNI versions",
    `config is ${showValue(requested)}, plugin supports ${JSON.stringify(supportedVersions)}`,
  );
}
