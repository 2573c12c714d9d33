import type { Command } from "commander";
import * as v from "valibot";
import { CONFIGURATION_FILE } from "../../policyd/installation/network_configuration.ts";

/** Where on a node everything of ours is. */
export interface NodePlace {
  readonly configurationDirectory: string;
  readonly binaryDirectory: string;
  readonly dataDirectory: string;
  readonly stateDirectory: string;
  readonly socket: string;
  readonly bridge: string;
  /** Where shims find the plugin server. */
  readonly serverDirectory: string;
  /** Path of the network namespace to look at instead of the one we are in. */
  readonly networkNamespace: string | undefined;
}

/** No option says it: the shim of a release has it built in (test/setup/build.mjs). */
const SERVER_DIRECTORY = "/run/drawbridge-plugin";

/** Adds the options that say where everything is; their defaults are the daemon's and the plugin's. */
export function withPlace(command: Command): Command {
  return command
    .option("--cni-conf-directory <path>", "where runtimes look for network configurations", "/etc/cni/net.d")
    .option("--cni-bin-directory <path>", "where they look for plugins", "/opt/cni/bin")
    .option("--data-directory <path>", "where addresses are reserved", "/var/lib/cni/networks")
    .option("--state-directory <path>", "where the records of attachments are", "/run/drawbridge")
    .option("--socket <path>", "policyd's socket", "/run/drawbridge/policyd.sock")
    .option("--bridge <name>", "the bridge the pods are on", "cni0")
    .option("--network-namespace <path>", "look at this network namespace instead of our own");
}

/** The entries of {@link withPlace} in a schema of options. */
export const placeEntries = {
  cniConfDirectory: v.string(),
  cniBinDirectory: v.string(),
  dataDirectory: v.string(),
  stateDirectory: v.string(),
  socket: v.string(),
  bridge: v.string(),
  networkNamespace: v.optional(v.string()),
};

/** The place that options name. */
export function placeOf(options: v.InferOutput<v.ObjectSchema<typeof placeEntries, undefined>>): NodePlace {
  return {
    configurationDirectory: options.cniConfDirectory,
    binaryDirectory: options.cniBinDirectory,
    dataDirectory: options.dataDirectory,
    stateDirectory: options.stateDirectory,
    socket: options.socket,
    bridge: options.bridge,
    serverDirectory: SERVER_DIRECTORY,
    networkNamespace: options.networkNamespace,
  };
}

/** The path of our network configuration. */
export function configurationPath({ configurationDirectory }: NodePlace): string {
  return `${configurationDirectory}/${CONFIGURATION_FILE}`;
}
