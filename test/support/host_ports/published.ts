import type { Configuration } from "../../lab/cni.ts";

/** The port on which pods listen. */
export const PORT = 8080;

/** Returns one entry of `portMappings`, to {@link PORT}. */
export function mapping(hostPort: number, protocol = "tcp", hostIP?: string): Configuration {
  return { hostPort, containerPort: PORT, protocol, ...(hostIP === undefined ? {} : { hostIP }) };
}

/** Returns what a runtime adds to the configuration for these ports. */
export function published(...portMappings: readonly Configuration[]): Configuration {
  return { runtimeConfig: { portMappings } };
}

/** A configuration with everything that takes rules on the node, with one port of TCP and UDP. */
export const everything: Configuration = {
  ...published(mapping(7000), mapping(7000, "udp")),
  serviceCIDRs: ["10.96.0.0/12"],
  ipMasq: true,
  macspoofchk: true,
};
