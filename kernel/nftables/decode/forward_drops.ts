import { string } from "../../netlink/attribute.ts";
import { decodeAttributes } from "../../netlink/attribute_decoder.ts";
import { decodeBody } from "../../netlink/message.ts";
import type { NetlinkSocket } from "../../netlink/socket.ts";
import { type Instruction, instructions } from "../encode/instruction.ts";
import { chainLayout, Message, nftablesRequest, type ReadFamily, ruleLayout, tableLayout } from "../encode/message.ts";
import { hooks, TableFlag } from "../encode/change.ts";
import { verdictCodes } from "../encode/lowering.ts";
import { CompareOperator } from "../encode/rule_code.ts";
import { VERDICT_REGISTER } from "../encode/register.ts";
import { connectionKeys, metaKeys } from "../model/expression.ts";
import { isInRuleset } from "./in_ruleset.ts";

/** A base chain that drops by its policy what a bridge forwards. */
export interface ForwardDrop {
  readonly family: ReadFamily;
  readonly table: string;
  readonly chain: string;
}

/** A new TCP packet from a bridge, by the links that packets leave the node by; none where these are not known. */
interface Forwarded {
  readonly bridge: string;
  readonly uplinks: readonly string[];
}

/** The parts of a packet that a register can hold. */
type Subject = "in" | "out" | "protocol";

const META: ReadonlyMap<number, Subject> = new Map([
  [metaKeys.iifname.number, "in"],
  [metaKeys.oifname.number, "out"],
  [metaKeys["meta l4proto"].number, "protocol"],
]);
/** NFT_PAYLOAD_NETWORK_HEADER, IPPROTO_TCP. */
const [NETWORK_HEADER, TCP] = [1, 6];
/** NFTA_MATCH_NAME, and iptables' matches about the state of connections. */
const matchAttributes = { name: [1, string] } as const;
const STATE_MATCHES: readonly (string | undefined)[] = ["conntrack", "state"];
/** The places of the protocol in the headers of IPv4 and IPv6. */
const PROTOCOL_OFFSETS: readonly (number | undefined)[] = [9, 6];
const FAMILIES = ["inet", "ip", "ip6"] as const;
/** The tables of iptables-nft, of which only one has a chain in this hook that drops by its policy. */
const IPTABLES: readonly string[] = ["filter", "mangle", "nat", "raw", "security"];

/**
 * Returns the base chains of other programs that drop all new connections which pods begin through the node: those with
 * the policy drop, as after `iptables -P FORWARD DROP`, in which no rule may accept such a packet. A rule whose matches
 * are not understood may. The rules of iptables-legacy are not visible. Chains are listed only where there are tables
 * beside those of iptables and ours.
 *
 * @throws NetlinkError EPERM without CAP_NET_ADMIN
 */
export function forwardDrops(
  socket: Pick<NetlinkSocket, "dump" | "request">,
  packet: Forwarded,
  isOurs: (family: string, table: string) => boolean,
): readonly ForwardDrop[] {
  return FAMILIES.flatMap((family) => {
    const tables = { message: Message.GET_TABLE, family, layout: tableLayout };
    const names = socket
      .dump(nftablesRequest("list tables", tables, {}))
      .map(({ body }) => decodeBody(tableLayout, body).attributes)
      .flatMap(({ name = "", flags = 0 }) => ((flags & TableFlag.DORMANT) === 0 && !isOurs(family, name) ? name : []));
    const chains = { message: Message.GET_CHAIN, family, layout: chainLayout };
    const isIptables = family !== "inet" && names.every((name) => IPTABLES.includes(name));
    if (names.length === 0 || (isIptables && !isInRuleset(socket, { family, name: "filter", chain: "FORWARD" })))
      return [];
    const found = isIptables
      ? socket.request(nftablesRequest("get chain", chains, { table: "filter", name: "FORWARD" }))
      : socket.dump(nftablesRequest("list chains", chains, {}));
    return found.flatMap(({ body }) => {
      const { table = "", name: chain = "", hook, policy, type } = decodeBody(chainLayout, body).attributes;
      const isDropping =
        type === "filter" && hook?.number === hooks.forward && policy === verdictCodes.drop && names.includes(table);
      return isDropping && !mayAccept(rulesOf(socket, family, table), chain, packet) ? [{ family, table, chain }] : [];
    });
  });
}

/** Rules by chain, each as its instructions. */
type Rules = ReadonlyMap<string, readonly (readonly Instruction[])[]>;

function rulesOf(socket: Pick<NetlinkSocket, "dump">, family: ReadFamily, table: string): Rules {
  const rules = { message: Message.GET_RULE, family, layout: ruleLayout };
  const found = new Map<string, (readonly Instruction[])[]>();
  for (const { body } of socket.dump(nftablesRequest("list rules", rules, { table }))) {
    const { chain = "", instructions: rule = [] } = decodeBody(ruleLayout, body).attributes;
    const known = found.get(chain);
    if (known === undefined) found.set(chain, [rule]);
    else known.push(rule);
  }
  return found;
}

/** @param tried the chains that were looked at already: one that did not accept is not looked at for each jump to it */
function mayAccept(rules: Rules, chain: string, packet: Forwarded, tried = new Set<string>()): boolean {
  if (tried.has(chain)) return false;
  tried.add(chain);
  return (rules.get(chain) ?? []).some((rule) => {
    if (!mayMatch(rule, packet)) return false;
    return rule.some(({ name, data }) => {
      if (name === "lookup") return decodeAttributes(instructions.lookup, data).target === VERDICT_REGISTER;
      if (name !== "immediate") return false;
      const verdict = decodeAttributes(instructions.immediate, data).data?.verdict;
      if (verdict?.chain !== undefined) return mayAccept(rules, verdict.chain, packet, tried);
      return verdict?.code === verdictCodes.accept;
    });
  });
}

/** Whether a new TCP packet may pass all matches of a rule. */
function mayMatch(rule: readonly Instruction[], packet: Forwarded): boolean {
  const loaded = new Map<number | undefined, Subject | undefined>();
  return rule.every(({ name, data }) => {
    switch (name) {
      case "meta": {
        const { target, key = -1 } = decodeAttributes(instructions.meta, data);
        loaded.set(target, META.get(key));
        return true;
      }
      case "payload": {
        const { target, base, offset, length } = decodeAttributes(instructions.payload, data);
        const isProtocol = base === NETWORK_HEADER && PROTOCOL_OFFSETS.includes(offset) && length === 1;
        loaded.set(target, isProtocol ? "protocol" : undefined);
        return true;
      }
      // A rule about the state is one about connections that exist already.
      case "ct":
        return decodeAttributes(instructions.ct, data).key !== connectionKeys["ct state"].number;
      case "match":
        return !STATE_MATCHES.includes(decodeAttributes(matchAttributes, data).name);
      case "cmp": {
        const { source, operator, data: compared } = decodeAttributes(instructions.cmp, data);
        const isEqual = isOfPacket(loaded.get(source), compared?.value ?? new Uint8Array(), packet);
        return (
          !(operator === CompareOperator.EQUAL && isEqual === false) &&
          !(operator === CompareOperator.NOT_EQUAL && isEqual === true)
        );
      }
      default:
        return true;
    }
  });
}

/** Whether a packet has a value; undefined where that is not known. A link's name without its end is a prefix. */
function isOfPacket(
  subject: Subject | undefined,
  value: Uint8Array,
  { bridge, uplinks }: Forwarded,
): boolean | undefined {
  if (subject === undefined || (subject === "out" && uplinks.length === 0)) return undefined;
  if (subject === "protocol") return value[0] === TCP;
  const name = new TextDecoder().decode(value).replace(/\0+$/, "\0");
  return (subject === "in" ? [bridge] : uplinks).some((link) => `${link}\0`.startsWith(name));
}
