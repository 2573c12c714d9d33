import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import YAML from "yaml";
import { type Address, compareAddresses, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { evaluate } from "../../../objects/semantics/services/evaluate.ts";
import type { Packet, SocketAddress } from "../../../objects/semantics/services/packet.ts";
import type { Verdict } from "../../../objects/semantics/services/verdict.ts";
import type { ServiceWorld } from "../../../objects/semantics/services/world.ts";
import { ipv6Twin } from "./family_twin.ts";
import { manifestsOf, type ManifestText, nodeManifest } from "./manifest.ts";
import { storeOf } from "./store.ts";

/** A cluster in short form, and the outcomes of packets on its node n1; everything is read through the gate. */
export interface Scenario extends ManifestText {
  /** Labels that replace those of n1. */
  readonly nodeLabels?: Readonly<Record<string, string>>;
  /** Addresses that the node has in addition to {@link NODE_ADDRESSES}. */
  readonly moreAddresses?: readonly string[];
  readonly nodePortAddresses?: readonly string[];
  readonly refuseExternalIps?: boolean;
  readonly tcpReset?: boolean;
  /** Packets in the form of {@link readPacket}, each with its verdict in the form of {@link summary}. */
  readonly packets: Readonly<Record<string, string>>;
  /** The endpoints that the evaluator omits, by packet: "10.244.1.5:80 not ready". */
  readonly omitted?: Readonly<Record<string, readonly string[]>>;
}

const NODES = [
  { name: "n1", zone: "a", internal: "10.240.0.5", external: "198.51.100.5", pods: "10.244.1.0/24" },
  { name: "n2", zone: "b", internal: "10.240.0.4", external: "198.51.100.4", pods: "10.244.0.0/24" },
];
const NODE_ADDRESSES = ["127.0.0.1", "10.240.0.5", "10.244.1.1"];
const LOCAL_PODS = ["10.244.1.5", "10.244.1.6", "10.244.1.9"];

/** Reads the scenarios of a file, by name. */
export function readScenarios(file: URL): ReadonlyMap<string, Scenario> {
  return new Map(Object.entries(YAML.parse(readFileSync(file, "utf8")) as Record<string, Scenario>));
}

/** Compares the evaluator with a scenario, as it stands or translated to IPv6. */
export function checkScenario(scenario: Scenario, family: "IPv4" | "IPv6"): void {
  const twin = family === "IPv4" ? scenario : (ipv6Twin(scenario) as Scenario);
  const world = scenarioWorld(twin, family);
  const verdicts = Object.keys(twin.packets).map((text) => [text, evaluateText(world, text)] as const);
  const seen = Object.fromEntries(verdicts.map(([text, verdict]) => [text, summary(verdict)]));
  assert.deepEqual(seen, twin.packets, family);
  for (const [text, expected] of Object.entries(twin.omitted ?? {})) {
    assert.deepEqual(omitted(evaluateText(world, text)), expected, `${family}: omitted for ${text}`);
  }
}

function evaluateText(world: ServiceWorld, text: string): Verdict {
  const [packet, remembered] = readPacket(text);
  return evaluate(world, packet, remembered);
}

/** Returns the world of a scenario whose addresses are of the family. */
export function scenarioWorld(scenario: Scenario, family: "IPv4" | "IPv6"): ServiceWorld {
  const inFamily = <T>(value: T): T => (family === "IPv4" ? value : (ipv6Twin(value) as T));
  const store = storeOf([...inFamily(NODES).map(nodeManifest), ...manifestsOf(scenario, family)]);
  const nodes = [...store.nodes.values()].map((node) =>
    node.name === "n1" && scenario.nodeLabels !== undefined ? { ...node, labels: scenario.nodeLabels } : node,
  );
  const addresses = (texts: readonly string[]): ReadonlySet<Address> =>
    new Set(texts.map((text) => parseAddress(text)));
  return {
    nodeName: "n1",
    services: [...store.services.values()],
    endpointSlices: [...store.endpointSlices.values()],
    nodes,
    localPods: addresses(inFamily(LOCAL_PODS)),
    nodeAddresses: addresses([...inFamily(NODE_ADDRESSES), ...(scenario.moreAddresses ?? [])]),
    configuration: {
      nodePortAddresses: (scenario.nodePortAddresses ?? []).map((text) =>
        text === "primary" ? "primary" : parseCidr(text),
      ),
      refuseExternalIps: scenario.refuseExternalIps ?? false,
      tcpReset: scenario.tcpReset ?? false,
      clusterCidrs: [],
    },
  };
}

/**
 * Reads "pod 10.244.1.9 TCP 10.96.0.1:80 after 10.244.1.5:8080": the packet, and the endpoint of the client's affinity.
 */
export function readPacket(text: string): readonly [Packet, SocketAddress | undefined] {
  const [entry, source = "", protocol, to = "", , remembered] = text.split(" ");
  assert.ok(entry === "pod" || entry === "node" || entry === "outside", text);
  assert.ok(protocol === "TCP" || protocol === "UDP" || protocol === "SCTP", text);
  const { address: destination, port: destinationPort } = readSocket(to);
  return [
    { entry, source: parseAddress(source), sourcePort: 40_000, protocol, destination, destinationPort },
    remembered === undefined ? undefined : readSocket(remembered),
  ];
}

function readSocket(text: string): SocketAddress {
  const colon = text.lastIndexOf(":");
  return { address: parseAddress(text.slice(0, colon).replaceAll(/[[\]]/g, "")), port: Number(text.slice(colon + 1)) };
}

function socketText({ address, port }: SocketAddress): string {
  return typeof address === "bigint" ? `[${formatAddress(address)}]:${port}` : `${formatAddress(address)}:${port}`;
}

/** Formats a verdict: "ClusterIP to 10.244.1.5:80, 10.244.1.6:80 masqueraded", "drop: ...", "reject: ...", "pass". */
export function summary(verdict: Verdict): string {
  switch (verdict.kind) {
    case "pass":
      return ["pass", ...verdict.nearMisses.map((miss) => ("because" in miss ? miss.because : miss.type))].join(": ");
    case "drop":
      return `drop: ${verdict.reason.type}`;
    case "reject":
      return `reject: ${verdict.reason.type}${verdict.reply === "tcp reset" ? ", tcp reset" : ""}`;
    case "translate": {
      const targets = verdict.candidates
        .toSorted((a, b) => order(a.destination, b.destination))
        .map(({ destination, masquerade, isRejected }) =>
          [socketText(destination), masquerade.masqueraded ? " masqueraded" : "", isRejected ? " refused" : ""].join(
            "",
          ),
        );
      return `${verdict.frontend.type} to ${targets.join(", ")}`;
    }
  }
}

function order(a: SocketAddress, b: SocketAddress): number {
  return compareAddresses(a.address, b.address) || a.port - b.port;
}

function omitted(verdict: Verdict): readonly string[] {
  if (verdict.kind === "pass" || verdict.endpoints === undefined) return [];
  return [
    ...verdict.endpoints.omitted.map(({ endpoint, because }) => `${socketText(endpoint)} ${because}`),
    ...verdict.endpoints.ignoredSlices.map(({ slice, because }) => `${slice} ${because}`),
  ];
}
