import { isName, MAX_NAME_LENGTH } from "../../ipam/owner.ts";
import { CniError, CniErrorCode } from "../error.ts";
import { decode, type Decoded, isNestedDeeper, isObject, type Shape } from "../json.ts";
import { type CniVersion, negotiateVersion } from "../version.ts";

export const RUN_DIRECTORY = "/run/drawbridge";
export const DATA_DIRECTORY = "/var/lib/cni/networks";
/** Real configurations have fewer than ten. */
const MOST_LEVELS = 64;

/** The typed keys of a configuration, with the two that are checked for every verb. */
export type Configured<S extends Shape> = Decoded<S> & {
  readonly cniVersion: CniVersion;
  /** `[a-zA-Z0-9][a-zA-Z0-9_.-]*`: it names a directory of the address store. */
  readonly name: string;
};

/**
 * Reads the configuration a runtime passes on standard input.
 *
 * @param shape the typed keys, or a function that chooses them by the whole configuration
 * @param judge checks the version before anything else is read
 * @returns the typed keys of the shape, spelled as declared whatever their case
 * @throws CniError 6 when it is not a JSON object, 1 for an unsupported version, 7 for a wrong type or network name
 */
export function decodeConfiguration<const S extends Shape>(
  text: string,
  shape: S | ((value: object) => S),
  judge: (version: CniVersion) => void = () => {},
): Configured<S> {
  const { value, version } = versioned(text);
  judge(version);
  const input: unknown = decode(value, typeof shape === "function" ? shape(value) : shape);
  // The shape may lack the name, as that of a reader of one key does.
  const name = checkNetworkName(decode(value, { name: "string" }).name ?? "");
  // oxlint-disable-next-line no-unsafe-type-assertion -- this is the gate: both keys have been checked
  return { ...(isObject(input) ? input : {}), cniVersion: version, name } as Configured<S>;
}

/** Returns the version of a configuration. @throws CniError 6 and 1, as {@link decodeConfiguration} */
export function configuredVersion(text: string): CniVersion {
  return versioned(text).version;
}

function versioned(text: string): { readonly value: object; readonly version: CniVersion } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CniError(
      CniErrorCode.DECODING_FAILURE,
      "standard input is not JSON; expected a network configuration object",
      error instanceof Error ? error.message : undefined,
    );
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new CniError(
      CniErrorCode.DECODING_FAILURE,
      "standard input is not a JSON object; expected a network configuration",
    );
  }
  if (isNestedDeeper(value, MOST_LEVELS)) {
    throw new CniError(
      CniErrorCode.DECODING_FAILURE,
      `standard input nests objects and lists deeper than ${MOST_LEVELS} levels; expected a network configuration`,
    );
  }
  // The version comes first: in another version the other keys may have other types.
  return { value, version: negotiateVersion(decode(value, { cniVersion: "any" }).cniVersion) };
}

/** @throws CniError 7 when it is missing or cannot name a directory */
function checkNetworkName(name: string): string {
  if (name === "")
    throw new CniError(
      CniErrorCode.INVALID_CONFIGURATION,
      "missing network name: set name in the network configuration",
    );
  if (!isName(name)) {
    throw new CniError(
      CniErrorCode.INVALID_CONFIGURATION,
      `invalid characters found in network name: name must be a letter or digit, then letters, digits, "_", "." or "-", at most ${MAX_NAME_LENGTH} in all`,
      JSON.stringify(name.slice(0, 2 * MAX_NAME_LENGTH)),
    );
  }
  return name;
}
