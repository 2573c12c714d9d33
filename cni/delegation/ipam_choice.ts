import { type NetworkInput, networkShape } from "../configuration/network_input.ts";
import type { Environment } from "../environment.ts";
import { decode, isObject } from "../json.ts";
import { foreignIpamType } from "./plugin_search.ts";

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

/** Whether another program gives the addresses; false without `ipam`. @throws as {@link foreignIpamType} */
export function isForeignIpam({ ipam }: NetworkInput, self: string): boolean {
  return ipam !== undefined && foreignIpamType(ipam.type, self) !== undefined;
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
