import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Configuration } from "../../configuration/configuration.ts";
import { askedPorts } from "./own_ports.ts";
import { policyOptions, serviceRules } from "./rule_options.ts";
import { nodeTables } from "./tables.ts";

/** Returns the tables of a node with this configuration of its daemon, as {@link nodeTables} does. */
export function configuredTables(configuration: Configuration): readonly Table[] {
  return nodeTables({
    ...configuration,
    askedPorts: askedPorts(configuration),
    services: serviceRules(configuration),
    policyOptions: policyOptions(configuration),
  });
}
