import type { AttachmentRecord, PortMapping } from "../ipam/attachment.ts";
import type { Address } from "../kernel/ip/address.ts";
import type { Cidr } from "../kernel/ip/cidr.ts";
import type { MacAddress } from "../kernel/ip/mac.ts";
import { decodeBody } from "../kernel/netlink/message.ts";
import { requestsOf } from "../kernel/nftables/change.ts";
import { commentText } from "../kernel/nftables/identifier.ts";
import { setLayout } from "../kernel/nftables/message.ts";
import type { Element, SetDefinition, Table } from "../kernel/nftables/object.ts";
import type { TableState } from "../kernel/nftables/state.ts";
import { anyFlag, rule } from "../kernel/nftables/statement.ts";
import type { BridgeConfiguration } from "./configuration.ts";
import {
  hairpinRules,
  hostPortChains,
  hostPortElements,
  hostPortOutputRules,
  hostPortRules,
  hostPortSets,
} from "./host_ports.ts";
import { hideLocalhost, localhostAnswerChains, localhostOutput, showLocalhost } from "./localhost_ports.ts";
import { macCheckElements, macCheckRules, macCheckSets } from "./mac_check.ts";
import { masqueradeElements, masqueradeRules, masqueradeSets } from "./masquerade.ts";
import { asksForNodeRules, unmasqueradedNetworks } from "./node_rules_configuration.ts";
import type { SetElements } from "./set_elements.ts";

/** Of sets, chains and rules; elements are of no version. Another one has the tables replaced, so it changes with them. */
const VERSION = 3;
const OURS = "drawbridge-cni version ";
const comment = `${OURS}${VERSION}`;

/** The table of hostPorts and masquerade, where no policyd keeps one: its rules are the same for any number of pods. */
export const ipTable: Table = {
  family: "inet",
  name: "drawbridge-cni",
  comment,
  sets: [...hostPortSets, ...masqueradeSets],
  chains: [
    ...hostPortChains,
    ...localhostAnswerChains,
    {
      name: "prerouting",
      base: { type: "nat", hook: "prerouting", priority: -100, policy: "accept" },
      rules: hostPortRules,
    },
    {
      name: "output",
      base: { type: "nat", hook: "output", priority: -100, policy: "accept" },
      rules: hostPortOutputRules,
    },
    { name: "localhost_output", ...localhostOutput },
    {
      name: "localhost_prerouting",
      base: { type: "filter", hook: "prerouting", priority: -90, policy: "accept" },
      rules: [rule(anyFlag("ct status", "snat"), hideLocalhost)],
    },
    {
      name: "localhost_input",
      base: { type: "filter", hook: "input", priority: 110, policy: "accept" },
      rules: [showLocalhost],
    },
    {
      name: "postrouting",
      base: { type: "nat", hook: "postrouting", priority: 100, policy: "accept" },
      rules: [...hairpinRules, ...masqueradeRules],
    },
  ],
};

/** The table of the MAC check: frames that are bridged pass no inet table. */
export const bridgeTable: Table = {
  family: "bridge",
  name: "drawbridge-cni",
  comment,
  sets: macCheckSets,
  chains: [
    {
      name: "prerouting",
      base: { type: "filter", hook: "prerouting", priority: -300, policy: "accept" },
      rules: macCheckRules,
    },
  ],
};

/** What is to be done with a table before elements go in. */
export type TablePlan = "create" | "keep" | "replace" | "foreign";

/** Judges it by what is found under the table's name; undefined for nothing. */
export function planTable(table: Table, found: { readonly comment: string | undefined } | undefined): TablePlan {
  if (found === undefined) return "create";
  if (found.comment === table.comment) return "keep";
  return isOurs(found) ? "replace" : "foreign";
}

/** Whether a table was made by this or another version of the plugin. */
export function isOurs({ comment: found }: { readonly comment: string | undefined }): boolean {
  return found !== undefined && found.startsWith(OURS) && /^\d{1,9}$/.test(found.slice(OURS.length));
}

/** What one attachment has in one table. */
export interface TableElements {
  readonly table: Table;
  readonly sets: readonly SetElements[];
}

/** Everything that one attachment needs of the node's tables. */
export interface NodeRules {
  /** The first word of each element's comment, the name of the host end: no other attachment has it. */
  readonly owner: string;
  readonly mappings: readonly PortMapping[];
  readonly addresses: readonly Address[];
  readonly tables: readonly TableElements[];
}

/** The pod as it will be wired. */
interface Wired {
  readonly hostInterface: string;
  readonly podMac: MacAddress;
  readonly alias: string;
  readonly addresses: readonly Cidr[];
}

/** Decides them. @returns undefined when the configuration asks for nothing of the kind */
export function decideNodeRules(
  configuration: BridgeConfiguration,
  { hostInterface, podMac, alias, addresses: cidrs }: Wired,
  containerId: string,
): NodeRules | undefined {
  const { portMappings, serviceCidrs, ipMasq, macspoofchk } = configuration;
  if (!asksForNodeRules(configuration)) return undefined;
  const addresses = cidrs.map(({ address }) => address);
  const label = commentText(`${hostInterface} ${alias === containerId ? "" : `${alias} `}${containerId}`);
  const ip = [
    ...hostPortElements({ mappings: portMappings, addresses, serviceCidrs, comment: label }),
    ...(ipMasq ? masqueradeElements(addresses, unmasqueradedNetworks(configuration), label) : []),
  ];
  return {
    owner: hostInterface,
    mappings: portMappings,
    addresses,
    tables: [
      ...(ip.length === 0 ? [] : [{ table: ipTable, sets: ip }]),
      ...(macspoofchk ? [{ table: bridgeTable, sets: macCheckElements(hostInterface, podMac, label) }] : []),
    ],
  };
}

/** The elements whose comment names an owner. */
export function elementsOf(owner: string, elements: readonly Element[]): readonly Element[] {
  return elements.filter(({ comment: text }) => text === owner || text?.startsWith(`${owner} `) === true);
}

/** The host end that an element's comment names; undefined for none. */
export function ownerIn(text: string | undefined): string | undefined {
  return text?.split(" ")[0] || undefined;
}

/** Whom an element's comment names, for people: without the name of the host end. */
export function holderIn(text: string | undefined): string {
  return text?.split(" ").slice(1).join(" ") || "somebody unknown";
}

/** The tables an attachment may have elements in: what its record says; without one, all of them. */
export function tablesOf(record: TableUse | undefined): readonly Table[] {
  if (record === undefined) return [ipTable, bridgeTable];
  return [
    ...(record.portMappings.length > 0 || record.ipMasq === true ? [ipTable] : []),
    ...(record.macspoofchk === true ? [bridgeTable] : []),
  ];
}

/** What of a record says which tables it takes. */
export type TableUse = Pick<AttachmentRecord, "portMappings" | "ipMasq" | "macspoofchk">;

const COMPARED = ["flags", "keyType", "keyLength", "dataType", "dataLength"] as const;

/** The sets of a table whose elements another version's set of that name has in the same form. */
export function sharedSets(table: Table, found: Pick<TableState, "sets">): readonly SetDefinition[] {
  return table.sets.filter((set) => {
    const theirs = found.sets.get(set.name);
    const [request] = requestsOf([{ kind: "add set", table, set }]);
    if (theirs === undefined || request === undefined) return false;
    const ours = decodeBody(setLayout, request.body).attributes;
    return COMPARED.every((name) => (ours[name] ?? 0) === (theirs[name] ?? 0));
  });
}
