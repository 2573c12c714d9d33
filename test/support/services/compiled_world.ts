import assert from "node:assert/strict";
import { addressFromValue } from "../../../kernel/ip/address.ts";
import { keyText } from "../../../kernel/nftables/encode/element.ts";
import type { Element, Table } from "../../../kernel/nftables/model/object.ts";
import type { ObjectChange, Service } from "../../../objects/model.ts";
import { NodeJudge } from "../../../objects/nodes/node_judge.ts";
import { type DesiredElement, isSameElement } from "../../../policyd/ruleset/desired/desired_element.ts";
import { portShares } from "../../../policyd/node/masquerade/share_rules.ts";
import { tunnelNodes } from "../../../policyd/node/tables/tunnel_guard.ts";
import { NodeAddressSets } from "../../../policyd/node/node_address_sets.ts";
import { marks } from "../../../policyd/node/tables/marks.ts";
import { INET_TABLE, joined } from "../../../policyd/ruleset/table_part.ts";
import { ProtectedSocketIndex } from "../../../policyd/protection/socket_index.ts";
import { usedTimeout } from "../../../objects/timeout_choice.ts";
import { TimeoutClasses } from "../../../policyd/services/affinity/timeout_numbers.ts";
import { sourceHooks } from "../../../policyd/services/rules/check_part.ts";
import { FrontendHolders } from "../../../policyd/services/elements/arbitration.ts";
import { jenkinsHash, scaled } from "../../../policyd/services/rules/jenkins_hash.ts";
import {
  localPodElements,
  nodePortElements,
  protectedElements,
} from "../../../policyd/services/elements/node_elements.ts";
import { ServiceIndex } from "../../../policyd/services/elements/service_index.ts";
import { services } from "../../../policyd/services/rules/services_part.ts";
import { socketBytes } from "../../../policyd/services/elements/socket_address.ts";
import type { Packet, SocketAddress } from "../../../objects/semantics/services/packet.ts";
import type { ServiceWorld } from "../../../objects/semantics/services/world.ts";
import { surroundingsOf, walkedOutcome } from "../evaluate/agreement.ts";
import { FlowTable } from "../nftables/interpreter/flow_table.ts";
import { Ruleset } from "../nftables/interpreter/ruleset.ts";
import type { HashInput } from "../nftables/interpreter/surroundings.ts";
import { compileService, SERVICE_RULES } from "./scenario.ts";

const BRIDGE = "drawbridge0";

/** Returns the inet table with the parts that Services need: their own, and the one that clears marks. */
function tableFor(tcpReset: boolean): Table {
  const bits = { masquerade: SERVICE_RULES.masqueradeBit, bridged: 0x2000_0000 };
  const parts = [
    marks({ bridge: BRIDGE, markBits: bits, tableOwner: false }),
    portShares(bits.masquerade),
    tunnelNodes(),
    ...services({ ...SERVICE_RULES, tcpReset }),
  ];
  const { sets, chains } = joined(parts);
  return { ...INET_TABLE, sets, chains: [...chains, ...sourceHooks] };
}

const TABLES = { refused: tableFor(false), reset: tableFor(true) };

/** Returns the claims that the compiler makes for all Services of a world, as in the daemon. */
export function compiledClaims(world: ServiceWorld): readonly DesiredElement[] {
  const { nodeName, configuration, endpointSlices, nodes, localPods } = world;
  const index = new ServiceIndex(nodeName);
  const changes = [...world.services, ...endpointSlices, ...nodes].map(
    (object) => ({ type: "set", kind: object.kind, key: object.key, object }) as const,
  );
  index.apply(changes);
  const protection = protectionOf(world, changes);
  const claims: DesiredElement[] = [];
  const ruleset = { claim: (_owner: string, elements: readonly DesiredElement[]) => void claims.push(...elements) };
  const { clusterCidrs: ownCidrs, nodePortAddresses } = configuration;
  const judge = new NodeJudge({ nodeName, ownCidrs });
  judge.apply(changes);
  new NodeAddressSets({ ruleset, nodeName, isTunnel: false, nodePortAddresses, judge }).apply(changes);
  const facts = index.nodeFacts();
  const context = {
    nodeName,
    refuseExternalIps: configuration.refuseExternalIps,
    ...facts,
    ...(protection === undefined ? {} : { protection }),
  };
  const holders = new FrontendHolders();
  for (const service of world.services) holders.replace(service.key, service, context);
  const timeouts = timeoutsOf(world.services);
  return [
    ...claims,
    ...nodePortElements(nodePortAddresses, facts.primaryAddresses),
    ...localPodElements([...localPods]),
    ...protectedElements(protection?.sockets() ?? []),
    ...world.services.flatMap(
      (service) =>
        compileService(service, index.slicesOf(service.key), context, holders, (seconds) => timeouts.of(seconds))
          .claims,
    ),
    ...timeouts.takeRules().flatMap(({ claims: ofTimeout }) => ofTimeout),
  ];
}

function protectionOf(
  { nodeName, configuration: { protection, clusterCidrs } }: ServiceWorld,
  changes: readonly ObjectChange[],
): ProtectedSocketIndex | undefined {
  if (protection === undefined) return undefined;
  const judge = new NodeJudge({ nodeName, ownCidrs: clusterCidrs, serviceCidrs: protection.serviceCidrs });
  const index = new ProtectedSocketIndex(protection, judge);
  judge.apply(changes);
  index.apply(changes);
  return index;
}

/** Returns the timeouts of session affinity that Services use, with their rules. */
function timeoutsOf(all: readonly Service[]): TimeoutClasses {
  const timeouts = new TimeoutClasses();
  timeouts.replace(all.map((service) => [service.key, usedTimeout(service)]));
  return timeouts;
}

/**
 * Returns the elements by their set. Several Services may claim one element, and then their claims must be equal.
 *
 * @throws AssertionError where two differ
 */
export function agreedElements(claims: readonly DesiredElement[]): ReadonlyMap<string, readonly Element[]> {
  const found = new Map<string, Map<string, Element>>();
  for (const { set, element } of claims) {
    const elements = found.get(set) ?? new Map<string, Element>();
    const key = keyText(element.key);
    const known = elements.get(key);
    assert.ok(known === undefined || isSameElement(known, element), `two Services claim ${key} of ${set}`);
    found.set(set, elements.set(key, element));
  }
  return new Map([...found].map(([set, elements]) => [set, [...elements.values()]]));
}

/** The rules of a world's node, with the sets that they write. */
export class CompiledNode {
  readonly #world: ServiceWorld;
  readonly #elements: ReadonlyMap<string, readonly Element[]>;
  /** The ruleset to use again for each packet, where no rule writes into a set. */
  readonly #unchanging: Ruleset | undefined;

  constructor(world: ServiceWorld) {
    this.#world = world;
    this.#elements = agreedElements(compiledClaims(world));
    const hasMemory = world.services.some(({ affinitySeconds }) => affinitySeconds !== undefined);
    this.#unchanging = hasMemory ? undefined : this.#loaded();
  }

  /**
   * Returns the outcomes of packets that come one after the other, each the first of a connection, on a node without
   * memory.
   *
   * @param draw the random number of each, below any modulus
   */
  walk(packets: readonly Packet[], draw: (modulus: number, packet: number) => number): readonly string[] {
    let current = 0;
    const choose = (modulus: number, hash?: HashInput): number =>
      hash === undefined ? draw(modulus, current) : hashed(hash);
    const surroundings = surroundingsOf(this.#world, BRIDGE, choose);
    const ruleset = this.#unchanging ?? this.#loaded();
    const flows = new FlowTable();
    return packets.map((packet, number) => {
      current = number;
      return walkedOutcome({ ruleset, flows, surroundings }, packet, BRIDGE);
    });
  }

  #loaded(): Ruleset {
    const { configuration, services: ofWorld } = this.#world;
    const fixed = configuration.tcpReset ? TABLES.reset : TABLES.refused;
    const table = {
      ...fixed,
      chains: [
        ...fixed.chains,
        ...timeoutsOf(ofWorld)
          .takeRules()
          .flatMap(({ chains }) => chains),
      ],
    };
    return new Ruleset([{ table, elements: this.#elements }], () => 0);
  }
}

/** Returns the kernel's hash of an address and a port; for a client's address any constant number will do. */
function hashed({ expression: { of, seed, modulus }, values: [value, port] }: HashInput): number {
  if (port === undefined) return Number(BigInt(value ?? 0) % BigInt(modulus));
  const address = addressFromValue(of.includes("ip daddr") ? 4 : 6, BigInt(value ?? 0));
  assert.ok(address !== undefined);
  const socket: SocketAddress = { address, port: Number(port) };
  return scaled(jenkinsHash(socketBytes(socket), seed), modulus);
}
