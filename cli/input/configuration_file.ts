import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Configuration } from "../../policyd/configuration/configuration.ts";
import { readConfiguration } from "../../policyd/configuration/configuration.ts";
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
