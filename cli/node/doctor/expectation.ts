import { totalmem } from "node:os";
import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Configuration } from "../../../policyd/configuration/configuration.ts";
import { policyOptions } from "../../../policyd/policies/compile/options.ts";
import { serviceRules } from "../../../policyd/services/rules/context.ts";
import { affordableFragmentMemory } from "../../../policyd/node/conntrack_settings.ts";
import { dropLogTrial, nodeTables } from "../../../policyd/node/tables/tables.ts";
import type { Expectation } from "./facts.ts";

/** The state that a daemon with this configuration makes, and its tables for a trial on the kernel. */
export interface Expected extends Expectation {
  readonly trialTables: readonly Table[];
}

/** Returns what is expected of a node with this configuration of its daemon. */
export function expectation(configuration: Configuration): Expected {
  const { markBits, services: servesServices, cniSourceDirectory, cniPrimary } = configuration;
  const tables = nodeTables({
    ...configuration,
    tableOwner: false,
    services: serviceRules(configuration),
    policyOptions: policyOptions(configuration),
  });
  return {
    sourceDirectory: cniSourceDirectory,
    primary: cniPrimary,
    servesServices,
    fragmentMemory: affordableFragmentMemory(configuration.fragmentMemory, totalmem()),
    tables: tables.map(({ family, name, chains }) => ({
      family,
      name,
      hooks: chains.flatMap(({ name: chain, base }) =>
        base === undefined ? [] : [{ chain, hook: base.hook, priority: base.priority }],
      ),
    })),
    markBits: (markBits.masquerade | markBits.bridged) >>> 0,
    trialTables: [...tables, ...dropLogTrial(configuration)],
  };
}
