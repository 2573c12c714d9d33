import { cidrContains } from "../../../kernel/ip/cidr.ts";
import type { IpBlockPeer, NetworkPolicy, PodPeer, PolicyPeer, PolicyPort, PolicyRule } from "../../model.ts";
import type { Direction, Traffic } from "./flow.ts";
import { hasEveryAddress } from "./match.ts";
import { eachOf, type ResolvedEnd, type ResolvedFlow } from "./party.ts";
import { unmet } from "./selector.ts";
import type { Failure, NearMiss } from "./verdict.ts";

/** The failures of a part of a rule; without failures it matches. */
interface Miss {
  readonly index: number | undefined;
  readonly failed: readonly Failure[];
}

/**
 * Returns the rule that comes nearest to allowing a flow that none allows: the one with the fewest failures, of equally
 * many the fewest of its peer, then the first. Undefined if no policy has a rule.
 */
export function nearestMiss(
  isolating: readonly NetworkPolicy[],
  direction: Direction,
  flow: ResolvedFlow,
  traffic: Traffic,
): NearMiss | undefined {
  let nearest: { readonly miss: NearMiss; readonly ofPeer: number } | undefined;
  for (const policy of isolating) {
    for (const rule of policy[direction]) {
      const peer = nearestPeer(rule, policy.namespace, direction === "egress" ? flow.destination : flow.source);
      const port = nearestPort(rule, { traffic, destination: flow.destination });
      const failed = [...peer.failed, ...port.failed];
      const ofPeer = peer.failed.length;
      const difference = nearest === undefined ? -1 : failed.length - nearest.miss.failed.length;
      if (difference > 0 || (difference === 0 && ofPeer >= (nearest?.ofPeer ?? 0))) continue;
      nearest = {
        miss: { policy: policy.key, rule: rule.index, peer: peer.index, port: port.index, failed },
        ofPeer,
      };
    }
  }
  return nearest?.miss;
}

function nearestPeer({ peers }: PolicyRule, namespace: string, other: ResolvedEnd): Miss {
  if (peers === undefined) return { index: undefined, failed: [] };
  const misses = peers.map((peer) => ({ index: peer.index, failed: peerFailures(peer, namespace, other) }));
  return fewest(misses, { type: "no valid peer" });
}

function nearestPort({ ports }: PolicyRule, context: PortContext): Miss {
  if (ports === undefined) return { index: undefined, failed: [] };
  const misses = ports.map((port) => ({ index: port.index, failed: portFailures(port, context) }));
  return fewest(misses, { type: "no valid port" });
}

function fewest(misses: readonly Miss[], none: Failure): Miss {
  let best: Miss | undefined;
  for (const miss of misses) if (best === undefined || miss.failed.length < best.failed.length) best = miss;
  return best ?? { index: undefined, failed: [none] };
}

function peerFailures(peer: PolicyPeer, namespace: string, other: ResolvedEnd): readonly Failure[] {
  if (peer.type === "names") return [{ type: "names", names: peer.names }];
  if (peer.type !== "pods") return addressFailures(peer, other);
  for (const one of eachOf(other)) {
    const failed = podFailures(peer, namespace, one);
    if (failed.length > 0) return one.pod === other.pod ? failed : [sharedAddress(one), ...failed];
  }
  return [];
}

function sharedAddress({ party }: ResolvedEnd): Failure {
  const name = party.type === "pod" ? party.key : party.type === "node" ? (party.name ?? "") : "";
  return { type: "shared address", name };
}

function addressFailures({ cidr, except }: IpBlockPeer, { address, family }: ResolvedEnd): readonly Failure[] {
  if (address === undefined) {
    return hasEveryAddress({ ranges: [{ cidr }], except }, family) ? [] : [{ type: "no address" }];
  }
  if (!cidrContains(cidr, address)) return [{ type: "outside cidr", cidr }];
  const excepted = except.find((one) => cidrContains(one, address));
  return excepted === undefined ? [] : [{ type: "except", except: excepted }];
}

function podFailures(
  { podSelector, namespaceSelector }: PodPeer,
  namespace: string,
  { pod, subject }: ResolvedEnd,
): readonly Failure[] {
  if (pod === undefined || subject === undefined) return [{ type: "no pod" }];
  const failed: Failure[] = [];
  if (namespaceSelector !== undefined) {
    for (const requirement of unmet(namespaceSelector, subject.identity.namespaceLabels)) {
      failed.push({ type: "namespace labels", requirement });
    }
  } else if (pod.namespace !== namespace) failed.push({ type: "namespace", expected: namespace });
  if (podSelector !== undefined) {
    for (const requirement of unmet(podSelector, pod.labels)) failed.push({ type: "pod labels", requirement });
  }
  return failed;
}

interface PortContext {
  readonly traffic: Traffic;
  readonly destination: ResolvedEnd;
}

function portFailures(
  { protocol, port, endPort }: PolicyPort,
  { traffic, destination }: PortContext,
): readonly Failure[] {
  if (traffic.port === undefined) return [{ type: "ICMP has no ports" }];
  const failed: Failure[] = protocol === traffic.protocol ? [] : [{ type: "protocol", expected: protocol }];
  if (typeof port === "number") {
    const to = endPort ?? port;
    if (traffic.port < port || traffic.port > to) failed.push({ type: "port", from: port, to });
  }
  if (typeof port === "string") {
    const named = (destination.pod?.ports ?? []).filter((one) => one.name === port && one.protocol === protocol);
    const found = named.map((one) => one.port);
    if (destination.pod === undefined) failed.push({ type: "named port of no pod", name: port });
    else if (!found.includes(traffic.port)) failed.push({ type: "named port", name: port, found });
  }
  return failed;
}
