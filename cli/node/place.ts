import type { Command } from "commander";
import * as v from "valibot";
import type { Configuration } from "../../policyd/configuration/configuration.ts";

/** The places of everything of ours on a node. */
export interface NodePlace {
  readonly configurationDirectory: string;
  readonly binaryDirectory: string;
  readonly dataDirectory: string;
  readonly stateDirectory: string;
  readonly socket: string;
  readonly bridge: string;
  /** The directory of the ledger of flows. */
  readonly flowDirectory: string;
  /** Path of the network namespace to read instead of our own. */
  readonly networkNamespace: string | undefined;
}

/** The plugin's default; the configuration has no field for it. */
const DATA_DIRECTORY = "/var/lib/cni/networks";

/** Adds the options that say where everything is. The daemon's configuration is the default for each. */
export function withPlace(command: Command): Command {
  return command
    .option("--cni-conf-directory <path>", "where runtimes look for network configurations (default: /etc/cni/net.d)")
    .option("--cni-bin-directory <path>", "where they look for plugins (default: /opt/cni/bin)")
    .option("--data-directory <path>", "where addresses are reserved", DATA_DIRECTORY)
    .option("--state-directory <path>", "where the records of attachments are (default: /run/drawbridge)")
    .option("--socket <path>", "policyd's socket (default: /run/drawbridge/policyd.sock)")
    .option("--bridge <name>", "the bridge the pods are on (default: drawbridge0)")
    .option("--network-namespace <path>", "look at this network namespace instead of our own");
}

/** The entries of {@link withPlace} in a schema of options. */
export const placeEntries = {
  cniConfDirectory: v.optional(v.string()),
  cniBinDirectory: v.optional(v.string()),
  dataDirectory: v.string(),
  stateDirectory: v.optional(v.string()),
  socket: v.optional(v.string()),
  bridge: v.optional(v.string()),
  networkNamespace: v.optional(v.string()),
};

/** Returns the place from the options and, where these say nothing, the configuration. */
export function placeOf(
  options: v.InferOutput<v.ObjectSchema<typeof placeEntries, undefined>>,
  configuration: Configuration,
): NodePlace {
  return {
    configurationDirectory: options.cniConfDirectory ?? configuration.cniConfDirectory,
    binaryDirectory: options.cniBinDirectory ?? configuration.cniBinDirectory,
    dataDirectory: options.dataDirectory,
    stateDirectory: options.stateDirectory ?? configuration.stateDirectory,
    socket: options.socket ?? configuration.socketPath,
    bridge: options.bridge ?? configuration.bridge,
    flowDirectory: configuration.flowLedgerDirectory,
    networkNamespace: options.networkNamespace,
  };
}
