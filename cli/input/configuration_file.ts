import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Configuration, readConfiguration } from "../../policyd/configuration/configuration.ts";
import type { PolicyOptions } from "../../objects/semantics/policies/objects.ts";
import type { Io } from "../io.ts";
import { expectOneReading } from "./load.ts";

/** Any name serves where nothing depends on the node. */
const NODE_NAME = { nodeName: { value: "node", where: "--config" } };

type Flags = Parameters<typeof readConfiguration>[1];

/**
 * Returns policyd's configuration as the nodes have it, or its defaults without a path.
 *
 * @param others the other paths that are read: standard input can be read only once
 * @param flags values that take precedence over the file, by the field's name
 * @throws DrawbridgeError ERR_INPUT for a path that is not a file, ERR_CONFIGURATION as readConfiguration
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
 * Returns how nodes with a configuration enforce policies.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION where they enforce none: what another program does instead is not known
 */
export function policyOptionsOf({ policies, policePodToOwnNode, nodeLocalDNS }: Configuration): PolicyOptions {
  if (policies) return { policePodToOwnNode, nodeLocalDNS };
  const why = "these nodes enforce no policies, and what another program makes of them is not known here";
  throw new DrawbridgeError("ERR_CONFIGURATION", `--config: policies: false; expected true: ${why}`);
}
