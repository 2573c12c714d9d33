import { type Address, familyOf } from "../../../kernel/ip/address.ts";
import type { IpProtocol } from "../../../kernel/ip/protocol.ts";
import { POLICY_SETS } from "../../../policyd/policies/compile/policy_table.ts";
import type { Direction } from "../../../policyd/policies/compile/profile.ts";
import { FlowTable } from "../nftables/interpreter/flow_table.ts";
import { type Device, hasPorts, type WalkedPacket } from "../nftables/interpreter/packet.ts";
import { Ruleset } from "../nftables/interpreter/ruleset.ts";
import { type Machine, type Outcome, walkThrough } from "../nftables/interpreter/walk.ts";
import type { CompiledNode } from "./compiled_cluster.ts";

export const BRIDGE: Device = { index: 7, name: "drawbridge0" };
const UPLINK: Device = { index: 2, name: "eth0" };
const LOOPBACK: Device = { index: 1, name: "lo" };

const DIRECTIONS = ["egress", "ingress"] as const;

/** The fields of a packet in a test. */
export interface PolicedPacket {
  readonly source: Address;
  readonly destination: Address;
  readonly protocol: IpProtocol;
  /** The destination port. */
  readonly port?: number;
  readonly state?: "related" | "invalid";
  readonly isUntracked?: boolean;
}

/** A node's table of policies that the interpreter walks, with nothing else on the node. */
export class PolicedNode {
  readonly #compiled: CompiledNode;
  #machine: Machine;
  readonly #local: ReadonlySet<Address>;
  readonly #own: ReadonlySet<Address>;

  /** @param further addresses on the node's bridge beside those of its pods */
  constructor(compiled: CompiledNode, further: Iterable<Address> = []) {
    const { table, elements, local, ownAddresses } = compiled;
    this.#compiled = compiled;
    this.#local = new Set([...local, ...further]);
    this.#own = ownAddresses;
    this.#machine = {
      ruleset: new Ruleset([{ table, elements }], () => 0),
      flows: new FlowTable(),
      surroundings: {
        fib: (address) => (this.#own.has(address) ? "local" : "unicast"),
        choose: () => 0,
        now: () => 0,
        outDevice: (address) => this.#deviceOf(address),
        ownAddress: ({ tuple }) => tuple.source,
      },
    };
  }

  /**
   * Returns this node with the verdict of an address in a direction missing, though everything else of its pod is in
   * force.
   */
  without(direction: Direction, address: Address): PolicedNode {
    const name = `${POLICY_SETS[direction]}${familyOf(address)}`;
    const kept = (this.#compiled.elements.get(name) ?? []).filter(({ key }) => key[0] !== address);
    const elements = new Map([...this.#compiled.elements, [name, kept]]);
    return new PolicedNode({ ...this.#compiled, elements }, this.#local);
  }

  /** Sends a packet through the node, from the side where its source is. */
  send({ source, destination, protocol, port = 0, ...rest }: PolicedPacket): Outcome {
    const ports = hasPorts(protocol)
      ? { sourcePort: 40_000, destinationPort: port }
      : { sourcePort: 0, destinationPort: 0 };
    const icmpType = rest.state === "related" ? "destination-unreachable" : "echo-request";
    const packet: WalkedPacket = {
      tuple: { protocol, source, destination, ...ports },
      mark: 0,
      ...(hasPorts(protocol) ? {} : { icmpType }),
      ...rest,
    };
    const isOwn = this.#own.has(source);
    if (!isOwn) packet.in = this.#deviceOf(source);
    return walkThrough(this.#machine, packet, isOwn ? "node" : "outside");
  }

  /** Deletes all connections and counts. */
  forget(): void {
    this.#machine = { ...this.#machine, flows: new FlowTable() };
    for (const { counted } of this.#machine.ruleset.tables) counted.clear();
  }

  /** Returns the directions in which packets were counted that policies in shadow would drop. */
  shadowed(): ReadonlySet<Direction> {
    const rules = [...this.#machine.ruleset.counters().keys()].filter((rule) => rule.includes("would be isolated by"));
    return new Set(DIRECTIONS.filter((direction) => rules.some((rule) => rule.includes(` ${direction}_`))));
  }

  #deviceOf(address: Address): Device {
    if (this.#own.has(address)) return LOOPBACK;
    return this.#local.has(address) ? BRIDGE : UPLINK;
  }
}

/** Returns the protocol of an echo request in an address's family. */
export function echoProtocol(address: Address): IpProtocol {
  return familyOf(address) === 4 ? "icmp" : "icmpv6";
}
