import assert from "node:assert/strict";
import { type Family, FAMILIES } from "../../../../kernel/ip/address.ts";
import { evaluate } from "../../../../objects/semantics/services/evaluate.ts";
import type { Packet } from "../../../../objects/semantics/services/packet.ts";
import type { Verdict } from "../../../../objects/semantics/services/verdict.ts";
import type { ServiceWorld } from "../../../../objects/semantics/services/world.ts";
import { allowedOutcomes } from "../../evaluate/agreement.ts";
import { storeOf } from "../../evaluate/store.ts";
import { CompiledNode } from "../compiled_world.ts";
import { CLIENTS, entryNode, isPlace, type NodePlace, NODES, type Place, PODS } from "./places.ts";
import type { Probe, Transport } from "./row.ts";
import { AcceptanceWorld } from "./world.ts";

/** No Service has more than eight endpoints, so these numbers choose each of them. */
const NUMBERS = [0, 1, 2, 3, 4, 5, 6, 7];
const PROTOCOLS = { tcp: "TCP", udp: "UDP", sctp: "SCTP" } as const;

/**
 * The outcome of a probe, in the words of the table: the source that each endpoint sees, or why no endpoint is reached.
 */
export type Outcome = ReadonlyMap<Place, Place> | "refused" | "no local endpoint" | "source not allowed" | "nobody";

/**
 * The Services' evaluator and the compiled rules, for the document's cluster with the document's addresses. An outcome
 * is only returned where both agree.
 */
export class DocumentEvaluator {
  readonly #world = new AcceptanceWorld();
  readonly #nodes: Readonly<Record<NodePlace, ServiceWorld>>;
  readonly #compiled: Readonly<Record<NodePlace, CompiledNode>>;

  constructor() {
    const store = storeOf(this.#world.manifests());
    const world = (nodeName: NodePlace): ServiceWorld => ({
      nodeName,
      services: [...store.services.values()],
      endpointSlices: [...store.endpointSlices.values()],
      nodes: [...store.nodes.values()],
      localPods: this.#addresses(PODS[nodeName]),
      nodeAddresses: this.#addresses([nodeName, `${nodeName} bridge`, "localhost"]),
      configuration: { nodePortAddresses: [], refuseExternalIps: false, tcpReset: false, clusterCidrs: [] },
    });
    this.#nodes = { n1: world("n1"), n2: world("n2") };
    // The first connection of a client of a Service with affinity has the outcomes that all would have without it.
    const compiled = (node: NodePlace): CompiledNode => {
      const { services, ...rest } = this.#nodes[node];
      const plain = services.map((service) => ({ ...service, affinitySeconds: undefined }));
      return new CompiledNode({ ...rest, services: plain });
    };
    this.#compiled = { n1: compiled("n1"), n2: compiled("n2") };
  }

  /**
   * Returns the outcome of a probe from one place; a packet that a node passes to the other node is evaluated there as
   * well.
   */
  outcome(probe: Pick<Probe, "to">, from: Place, protocol: Transport, family: Family): Outcome {
    const first = entryNode(from, probe.to);
    const name = probe.to.slice(0, probe.to.lastIndexOf(":"));
    const verdict = this.#verdict(first, this.#packet(probe.to, from, protocol, family, first));
    const isForTheOther = (name === "n1" || name === "n2") && name !== first;
    if (verdict.kind === "pass" && isForTheOther) {
      const there = this.#verdict(name, { ...this.#packet(probe.to, from, protocol, family, name), entry: "outside" });
      return this.#inWords(there, name, from, family) ?? "nobody";
    }
    if (verdict.kind === "pass" && isPod(name)) return new Map([[name, from]]);
    return this.#inWords(verdict, first, from, family) ?? "nobody";
  }

  /** Returns the evaluator's verdict, after comparing it with what the interpreter makes of the compiled rules. */
  #verdict(node: NodePlace, packet: Packet): Verdict {
    const verdict = evaluate(this.#nodes[node], packet);
    const connections = NUMBERS.map((number) => ({ ...packet, sourcePort: packet.sourcePort + number }));
    const walked = this.#compiled[node].walk(connections, (modulus, number) => number % modulus);
    assert.deepEqual(new Set(walked), allowedOutcomes(verdict), `${node}: ${JSON.stringify({ walked })}`);
    return verdict;
  }

  #packet(to: string, from: Place, protocol: Transport, family: Family, node: NodePlace): Packet {
    const { address, port } = this.#world.socketOf(to, family);
    const isClient = CLIENTS.some((client) => client === from);
    const isOwn = to.startsWith("localhost");
    return {
      entry: isClient ? "outside" : from === node ? "node" : "pod",
      protocol: PROTOCOLS[protocol],
      source: this.#world.addressOf(isOwn ? "localhost" : from, family),
      sourcePort: 40_000,
      destination: address,
      destinationPort: port,
    };
  }

  #inWords(verdict: Verdict, node: NodePlace, from: Place, family: Family): Outcome | undefined {
    switch (verdict.kind) {
      case "pass":
        return undefined;
      case "reject":
        return verdict.reply === "port unreachable" ? "refused" : undefined;
      case "drop":
        if (verdict.reason.type === "source range") return "source not allowed";
        return verdict.reason.type === "no local endpoint" ? "no local endpoint" : undefined;
      case "translate":
        return new Map(
          verdict.candidates.map(({ destination, masquerade, isRejected }) => {
            const place = this.#placeOf(destination.address, family);
            if (place === undefined || isRejected) throw new Error(`no place has ${String(destination.address)}`);
            const isHere = PODS[node].includes(place);
            return [place, masquerade.masqueraded ? (isHere ? `${node} bridge` : node) : from] as const;
          }),
        );
    }
  }

  #placeOf(address: Packet["source"], family: Family): Place | undefined {
    return [...PODS.n1, ...PODS.n2, ...NODES, "far" as const].find(
      (place) => this.#world.addressOf(place, family) === address,
    );
  }

  #addresses(places: readonly Place[]): ReadonlySet<Packet["source"]> {
    return new Set(places.flatMap((place) => FAMILIES.map((family) => this.#world.addressOf(place, family))));
  }
}

function isPod(name: string): name is Place {
  return isPlace(name) && (PODS.n1.includes(name) || PODS.n2.includes(name));
}
