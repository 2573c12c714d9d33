import { setImmediate as turn } from "node:timers/promises";
import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../../kernel/conntrack/filter.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { type Address, parseAddress } from "../../../kernel/ip/address.ts";
import type { SetDifference } from "../../../policyd/ruleset/difference.ts";
import type { ServedService } from "../../../policyd/services/service_follower.ts";
import { FrontendHolders } from "../../../policyd/services/elements/arbitration.ts";
import { ServedServices } from "../../../policyd/services/stale_flows/served_frontends.ts";
import { StaleFlows, type StaleFlowsParts, UDP_FLOWS } from "../../../policyd/services/stale_flows/stale_flows.ts";
import { FakeClock } from "../fake_clock.ts";
import { recordingLogger } from "../recording_logger.ts";
import { indexed, readScenario } from "./scenario.ts";

export const VIP = "10.96.0.10";
export const NODE = "192.0.2.1";
const OTHER_NODE = "192.0.2.2";

/** A Service with the port 53 of UDP and TCP and a node port, and its slice. */
export function manifest(
  name: string,
  clusterIp: string,
  endpoints: readonly { readonly address: string }[],
  spec: object = {},
): string {
  const service = {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name },
    spec: {
      clusterIPs: [clusterIp],
      type: "NodePort",
      ports: [
        { name: "dns", port: 53, protocol: "UDP", nodePort: 30_053 },
        { name: "tcp", port: 53, protocol: "TCP" },
      ],
      ...spec,
    },
  };
  const slice = {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `${name}-1`, labels: { "kubernetes.io/service-name": name } },
    addressType: clusterIp.includes(":") ? "IPv6" : "IPv4",
    ports: [
      { name: "dns", port: 5353, protocol: "UDP" },
      { name: "tcp", port: 5353, protocol: "TCP" },
    ],
    endpoints: endpoints.map(({ address }) => ({ addresses: [address], nodeName: "node2" })),
  };
  return `---\n${JSON.stringify(service)}\n---\n${JSON.stringify(slice)}\n`;
}

/** The Service `a` at {@link VIP} with these endpoints. */
export function withEndpoints(...addresses: readonly string[]): string {
  const endpoints = addresses.map((address) => ({ address }));
  return manifest("a", VIP, endpoints);
}

/** The deletion of stale flows on a machine in memory. */
export interface StaleFlowMachine {
  readonly stale: StaleFlows;
  readonly state: {
    entries: readonly ConntrackEntry[];
    /** The questions of each round. */
    rounds: (readonly ConntrackFilter[])[];
    refuses: boolean;
    /** Runs in each round. */
    during: () => void;
  };
  readonly clock: FakeClock;
  /** Reports these Services as compiled. */
  readonly tell: (text: string) => void;
  readonly remove: (name: string) => void;
  readonly inForce: (isWhole?: boolean, differences?: readonly SetDifference[]) => void;
  /** Lets time pass, and carries out what becomes due. */
  readonly pass: (milliseconds: number) => Promise<void>;
  /** Has everything in force, and forgets the rounds so far. */
  readonly settle: () => Promise<void>;
  /** Has a round check flows, and returns whether each is deleted. */
  readonly areDeleted: (...flows: readonly ConntrackEntry[]) => Promise<readonly boolean[]>;
}

export function setUp(entries: readonly ConntrackEntry[] = []): StaleFlowMachine {
  const state: StaleFlowMachine["state"] = { entries, rounds: [], refuses: false, during: () => {} };
  const clock = new FakeClock();
  const holders = new FrontendHolders();
  const services = new ServedServices();
  const parts: StaleFlowsParts = {
    flows: {
      delete: async (asked, isMeant) => {
        state.rounds.push(asked);
        if (state.refuses) throw new DrawbridgeError("ERR_NETLINK", "no answer");
        await turn();
        state.during();
        const left = state.entries.filter(
          (entry) => !(asked.some((filter) => matchesFilter(filter, entry)) && isMeant(entry)),
        );
        const deleted = state.entries.length - left.length;
        state.entries = left;
        return deleted;
      },
      nodeAddresses: () => new Set([NODE, OTHER_NODE].map((one) => parseAddress(one))),
    },
    clock,
    logger: recordingLogger(),
    targetsOf: (protocol) => services.targetsOf(protocol),
    servesNodePorts: (address) => address !== parseAddress(OTHER_NODE),
  };
  const stale = new StaleFlows(parts, UDP_FLOWS);
  const replace = (key: string, served?: ServedService): void => stale.changed(services.replace(key, served), served);
  const tell = (text: string): void => {
    const objects = readScenario(text);
    const { index, context: facts } = indexed(objects, "node1");
    const isNode = (address: Address): boolean => address === parseAddress(NODE);
    const protection = { refusalOf: () => undefined, isProtectedAddress: () => false, isNodeAddress: isNode };
    const context = { ...facts, protection };
    for (const object of objects) if (object.kind === "Service") holders.replace(object.key, object, context);
    for (const object of objects) {
      if (object.kind !== "Service") continue;
      replace(object.key, { service: object, slices: index.slicesOf(object.key), context, holders });
    }
  };
  const remove = (name: string): void => {
    holders.replace(`default/${name}`, undefined, indexed([], "node1").context);
    replace(`default/${name}`);
  };
  const inForce = (isWhole = false, differences: readonly SetDifference[] = []): void =>
    stale.rulesInForce({ isWhole, differences });
  const pass = async (milliseconds: number): Promise<void> => {
    for (let left = milliseconds; left >= 0; left -= 500) {
      clock.pass(Math.min(left, 500));
      for (let turns = 3; turns > 0; turns--) await turn();
    }
  };
  const settle = async (): Promise<void> => {
    inForce();
    await pass(2000);
    state.rounds.length = 0;
  };
  const areDeleted = async (...flows: readonly ConntrackEntry[]): Promise<readonly boolean[]> => {
    state.entries = flows;
    inForce();
    await pass(2000);
    return flows.map((flow) => !state.entries.includes(flow));
  };
  return { stale, state, clock, tell, remove, inForce, pass, settle, areDeleted };
}
