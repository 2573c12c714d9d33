import type { Table } from "../../../kernel/nftables/object.ts";
import { readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { nodeTables } from "../../../policyd/node/tables.ts";
import type { Expectation } from "./facts.ts";

/** Any name does: no table depends on it. */
const NODE_NAME = { nodeName: { value: "node", where: "--config" } };

/** What a daemon of this configuration would have loaded, and the tables themselves to try on the kernel. */
export interface Expected extends Expectation {
  readonly trialTables: readonly Table[];
}

/**
 * Works out what is expected of a node.
 *
 * @param file the daemon's configuration; undefined for its defaults
 * @param bridge the bridge, where the file names none
 * @throws DrawbridgeError ERR_CONFIGURATION as readConfiguration
 */
export function expectation(
  file: { readonly path: string; readonly text: string } | undefined,
  bridge: string,
): Expected {
  const flags = file === undefined ? { ...NODE_NAME, bridge: { value: bridge, where: "--bridge" } } : NODE_NAME;
  const configuration = readConfiguration(file, flags);
  const { markBits, tcpReset, dropInvalid, policies } = configuration;
  const servesServices = configuration.services;
  const tables = nodeTables({
    ...configuration,
    tableOwner: false,
    services: servesServices ? { masqueradeBit: markBits.masquerade, tcpReset, dropInvalid } : undefined,
    policyOptions: policies ? configuration : undefined,
  });
  return {
    sourceDirectory: configuration.cniSourceDirectory,
    servesServices,
    tables: tables.map(({ family, name, chains }) => ({
      family,
      name,
      hooks: chains.flatMap(({ name: chain, base }) =>
        base === undefined ? [] : [{ chain, hook: base.hook, priority: base.priority }],
      ),
    })),
    markBits: (markBits.masquerade | markBits.bridged) >>> 0,
    trialTables: tables.map((table) => ({ ...table, name: `${table.name}-trial` })),
  };
}
