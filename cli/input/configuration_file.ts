import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Configuration } from "../../policyd/configuration/configuration.ts";
import { readConfiguration } from "../../policyd/configuration/configuration.ts";
import { configuredSockets } from "../../policyd/protection/configured_sockets.ts";
import type { PolicyOptions } from "../../policyd/policy/evaluate/objects.ts";
import type { ServiceSettings } from "../cluster/service_world.ts";
import type { LintSettings } from "../policy/lint/context.ts";
import type { Io } from "../io.ts";
import { expectOneReading } from "./load.ts";

/** Any name does, where nothing depends on which node it is. */
const NODE_NAME = { nodeName: { value: "node", where: "--config" } };

type Flags = Parameters<typeof readConfiguration>[1];

/**
 * policyd's configuration, as the nodes have it, or its defaults without a path.
 *
 * @param others the paths that are read besides: standard input can be read once
 * @param flags what beats the file, by the field's name
 * @throws DrawbridgeError ERR_INPUT for what is no file, ERR_CONFIGURATION as readConfiguration
 */
export function configurationOf(
  { files }: Pick<Io, "files">,
  path: string | undefined,
  others: readonly string[] = [],
  flags: Flags = {},
): Configuration {
  const given = { ...NODE_NAME, ...flags };
  if (path === undefined) return readConfiguration(undefined, given);
  expectOneReading([[path], others]);
  if (path !== "-" && files.typeOf(path) !== "file") throw new DrawbridgeError("ERR_INPUT", `${path}: expected a file`);
  return readConfiguration({ path, text: Buffer.concat([...files.read(path)]).toString() }, given);
}

/**
 * How nodes of a configuration enforce policies.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION where they enforce none: nobody knows here what another program does instead
 */
export function policyOptionsOf({ policies, policePodToOwnNode, nodeLocalDNS }: Configuration): PolicyOptions {
  if (policies) return { policePodToOwnNode, nodeLocalDNS };
  const why = "these nodes enforce no policies, and what another program makes of them is not known here";
  throw new DrawbridgeError("ERR_CONFIGURATION", `--config: policies: false; expected true: ${why}`);
}

/** How nodes of a configuration serve Services, if they do. */
export function serviceSettingsOf(configuration: Configuration): ServiceSettings {
  const { services, nodePortAddresses, refuseExternalIPs, tcpReset, podCIDRs, serviceCIDRs } = configuration;
  return {
    isServing: services,
    nodePortAddresses,
    refuseExternalIps: refuseExternalIPs,
    tcpReset,
    podCidrs: podCIDRs,
    protection: { ...configuredSockets(configuration), serviceCidrs: serviceCIDRs },
  };
}

/** What lint goes by, also of nodes that leave policies to another program. */
export function lintSettingsOf({ policePodToOwnNode, nodeLocalDNS, refuseExternalIPs }: Configuration): LintSettings {
  return { policePodToOwnNode, nodeLocalDNS, refuseExternalIps: refuseExternalIPs };
}
