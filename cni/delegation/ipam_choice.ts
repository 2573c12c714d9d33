import { isName } from "../../ipam/owner.ts";
import { type NetworkInput, networkShape } from "../configuration/network_input.ts";
import type { Environment } from "../environment.ts";
import { CniError, CniErrorCode, invalidField, showValue } from "../error.ts";
import { LOOPBACK_PLUGIN, OWN_IPAM, PLUGIN } from "../executables.ts";
import { decode, isObject } from "../json.ts";
import type { IpamCall } from "./ipam_program.ts";

/** The names of this executable: executed as an IPAM plugin, it would execute itself without end. */
const OWN_NAMES: readonly string[] = [PLUGIN, LOOPBACK_PLUGIN];

/** A call of this plugin, as it came. */
export interface PluginInput {
  /** The name this process was executed under. */
  readonly self: string;
  readonly environment: Environment;
  readonly stdin: string;
  /** Writes a line to the runtime's log that does not report an error. */
  warn?(text: string): void;
}

/** Returns the directory of the reservations for external IPAM plugins: in memory, since no pod outlives a reboot. */
export function delegatedDirectory(runDir: string): string {
  return `${runDir}/delegated`;
}

/**
 * Returns the external IPAM plugin that a configuration names.
 *
 * @param type `ipam.type`
 * @param self the name this process was executed under
 * @returns undefined for a type that this process serves itself
 * @throws CniError 7 for a text that cannot be a file name, 2 for a name of our own
 */
function foreignIpamType(type: unknown, self: string): string | undefined {
  if (typeof type !== "string" || !isName(type)) {
    throw invalidField("ipam.type", type, 'a plugin\'s file name without a path, such as "host-local"');
  }
  if (OWN_IPAM.includes(type)) return undefined;
  if (!OWN_NAMES.includes(type) && type !== self) return type;
  throw new CniError(
    CniErrorCode.UNSUPPORTED_FIELD,
    `ipam.type: ${showValue(type)} is an interface plugin; expected an IPAM plugin: ${OWN_IPAM.join(", ")}, or the name of an executable in CNI_PATH`,
  );
}

/** Returns the call of the external IPAM plugin; undefined without one or `ipam`. @throws as {@link foreignIpamType} */
export function foreignIpam({ self, environment, stdin }: PluginInput, { ipam }: NetworkInput): IpamCall | undefined {
  const type = ipam && foreignIpamType(ipam.type, self);
  return type === undefined ? undefined : { type, environment, stdin };
}

/** The keys to validate in a configuration whose addresses another program gives. */
const foreignShape = { ...networkShape, ipam: { type: "string" } } as const;

/** Chooses the keys to read: below `ipam` only the type if an external IPAM plugin validates the rest. */
export function networkShapeFor(self: string): (value: object) => typeof networkShape | typeof foreignShape {
  return (value) => {
    const { ipam } = decode(value, { ipam: "any" });
    const type = isObject(ipam) ? decode(ipam, { type: "any" }).type : undefined;
    return usableType(type, self) === undefined ? networkShape : foreignShape;
  };
}

/** As {@link foreignIpamType}, for verbs other than ADD and CHECK: undefined for a name that ADD refuses. */
export function usableType(type: unknown, self: string): string | undefined {
  try {
    return foreignIpamType(type, self);
  } catch {
    return undefined;
  }
}
