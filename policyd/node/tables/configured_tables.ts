import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Configuration } from "../../configuration/configuration.ts";
import { askedPorts } from "../../configuration/own_ports.ts";
import { policyOptions } from "../../policies/compile/options.ts";
import { serviceRules } from "../../services/rules/context.ts";
import type { NodeConfiguration } from "./configuration.ts";
import { nodeTables } from "./tables.ts";

/** Returns the tables of a node with this configuration of its daemon, as {@link nodeTables} does. */
export function configuredTables(
  configuration: Configuration & Pick<NodeConfiguration, "reassembly">,
): readonly Table[] {
  return nodeTables({
    ...configuration,
    askedPorts: askedPorts(configuration),
    services: serviceRules(configuration),
    policyOptions: policyOptions(configuration),
  });
}
