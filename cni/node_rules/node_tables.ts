import type { AttachmentRecord, PortMapping } from "../../attachment/attachment.ts";
import { asksForNodeRules } from "../../attachment/node_rules_need.ts";
import { PLUGIN_BRIDGE_TABLE, PLUGIN_MARK, PLUGIN_TABLE } from "../../attachment/our_tables.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { MacAddress } from "../../kernel/ip/mac.ts";
import { decodeBody } from "../../kernel/netlink/message.ts";
import type { SetState } from "../../kernel/nftables/decode/state.ts";
import { requestsOf } from "../../kernel/nftables/encode/change.ts";
import { setLayout } from "../../kernel/nftables/encode/message.ts";
import { commentText } from "../../kernel/nftables/model/identifier.ts";
import type { Element, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { anyFlag, counter, drop, inSet, not, rule, type Rule } from "../../kernel/nftables/model/statement.ts";
import type { BridgeConfiguration } from "../configuration/configuration.ts";
import { unmasqueradedNetworks } from "../configuration/node_rules_configuration.ts";
import {
  hairpinRules,
  hostPortChains,
  hostPortElements,
  hostPortOutputRules,
  hostPortRules,
  hostPortSets,
} from "./host_ports.ts";
import { hideLocalhost, localhostAnswerChains, localhostOutput, showLocalhost } from "./localhost_ports.ts";
import { masqueradeElements, masqueradeRules, masqueradeSets } from "./masquerade.ts";
import type { SetElements } from "./set_elements.ts";
import { concatenation } from "../../kernel/nftables/model/expression.ts";

const checked: SetDefinition = { name: "checked", key: ["ifname"] };
const senders: SetDefinition = { name: "senders", key: ["ifname", "ether_addr"] };

/** The sets that the rules of this file use. */
const macCheckSets: readonly SetDefinition[] = [checked, senders];

/** Rules for prerouting, before the bridge learns addresses: a pod's port accepts only its pod's MAC address. */
const macCheckRules: readonly Rule[] = [
  rule(
    inSet("iifname", checked.name),
    not(inSet(concatenation("iifname", "ether saddr"), senders.name)),
    counter,
    drop,
  ),
];

/** Returns the elements that restrict a port to one MAC address. @param comment of each element: its owner */
function macCheckElements(port: string, mac: MacAddress, comment: string): readonly SetElements[] {
  return [
    { set: checked, elements: [{ key: [port], comment }] },
    { set: senders, elements: [{ key: [port, mac], comment }] },
  ];
}

/** The version of sets, chains and rules, to be raised with every change of them: tables of another are replaced. */
const VERSION = 4;
const comment = `${PLUGIN_MARK}${VERSION}`;

/** The table of host ports and masquerade on a node without policyd: its rules are the same for any number of pods. */
export const ipTable: Table = {
  ...PLUGIN_TABLE,
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

/** The table of the MAC check: bridged frames pass no inet table. */
export const bridgeTable: Table = {
  ...PLUGIN_BRIDGE_TABLE,
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

/** The step that a table needs before elements are added. */
export type TablePlan = "create" | "keep" | "replace" | "foreign";

/** Plans that step from the table found under this name, which is undefined if there is none. */
export function planTable(table: Table, found: { readonly comment: string | undefined } | undefined): TablePlan {
  if (found === undefined) return "create";
  if (found.comment === table.comment) return "keep";
  return isOurs(found) ? "replace" : "foreign";
}

/** Whether a table was made by this or another version of the plugin. */
export function isOurs({ comment: found }: { readonly comment: string | undefined }): boolean {
  return found !== undefined && found.startsWith(PLUGIN_MARK) && /^\d{1,9}$/.test(found.slice(PLUGIN_MARK.length));
}

/** One attachment's elements in one table. */
export interface TableElements {
  readonly table: Table;
  readonly sets: readonly SetElements[];
}

/** One attachment's elements in all of the node's tables. */
export interface NodeRules {
  /** The first word of each element's comment: the name of the host end, which no other attachment has. */
  readonly owner: string;
  readonly mappings: readonly PortMapping[];
  readonly addresses: readonly Address[];
  readonly tables: readonly TableElements[];
}

/** The planned wiring of the pod. */
interface Wired {
  readonly hostInterface: string;
  readonly podMac: MacAddress;
  readonly alias: string;
  readonly addresses: readonly Cidr[];
}

/** Decides an attachment's elements. @returns undefined when the configuration asks for none */
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

/** Returns the elements whose comment names an owner. */
export function elementsOf(owner: string, elements: readonly Element[]): readonly Element[] {
  return elements.filter(({ comment: text }) => text === owner || text?.startsWith(`${owner} `) === true);
}

/** Returns the host end that an element's comment names; undefined for none. */
export function ownerIn(text: string | undefined): string | undefined {
  return text?.split(" ")[0] || undefined;
}

/** Returns the holder that an element's comment names, for people: without the name of the host end. */
export function holderIn(text: string | undefined): string {
  return text?.split(" ").slice(1).join(" ") || "somebody unknown";
}

/** Returns the tables an attachment may have elements in: by its record; without one, all of them. */
export function tablesOf(record: TableUse | undefined): readonly Table[] {
  if (record === undefined) return [ipTable, bridgeTable];
  return [
    ...(record.portMappings.length > 0 || record.ipMasq === true ? [ipTable] : []),
    ...(record.macspoofchk === true ? [bridgeTable] : []),
  ];
}

/** The fields of a record that say which tables it uses. */
export type TableUse = Pick<AttachmentRecord, "portMappings" | "ipMasq" | "macspoofchk">;

const COMPARED = ["flags", "keyType", "keyLength", "dataType", "dataLength"] as const;

/** Returns the sets of a table that another version's table has under the same name, with elements of the same form. */
export function sharedSets(table: Table, found: readonly SetState[]): readonly SetDefinition[] {
  return table.sets.filter((set) => {
    const theirs = found.find(({ name }) => name === set.name);
    const [request] = requestsOf([{ kind: "add set", table, set }]);
    if (theirs === undefined || request === undefined) return false;
    const ours = decodeBody(setLayout, request.body).attributes;
    return COMPARED.every((name) => (ours[name] ?? 0) === (theirs[name] ?? 0));
  });
}
