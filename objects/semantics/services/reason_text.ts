import { refusalText } from "../../socket_refusal.ts";
import type { Drop, HintUse, Masquerade, NearMiss, Reject, Route, TakenReason } from "./verdict.ts";

/** Returns why a packet is dropped. */
export function dropText({ reason }: Drop): string {
  switch (reason.type) {
    case "loopback address from elsewhere":
      return "a loopback address, and it does not come from this node itself";
    case "source not of a local pod":
      return "the source is not an address of a pod of this node";
    case "source range":
      return `the source is not within loadBalancerSourceRanges of Service ${reason.service}`;
    case "no local endpoint":
      return `${reason.policy}TrafficPolicy Local, and no endpoint on this node`;
  }
}

/** Returns why a packet is refused. */
export function rejectText({ reason }: Reject): string {
  if (reason.type === "no endpoints") return "no endpoint anywhere";
  return `a cluster IP of Service ${reason.service}, which has no such port`;
}

/** Returns why no frontend has a packet although one nearly matches. */
export function missText(miss: NearMiss): string {
  switch (miss.type) {
    case "service not proxied":
      return `Service ${miss.service} has it, but is not served: ${miss.because}`;
    case "external IPs refused":
      return `externalIPs are refused by the configuration, and Service ${miss.service} has it as one`;
    case "refused":
      return `Service ${miss.service} claims it and does not get it: it ${refusalText(miss.refusal)}`;
    case "load balancer sends to nodes itself":
      return `the load balancer of Service ${miss.service} takes it: ipMode Proxy`;
    case "node port not served here":
      return `a node port of Service ${miss.service}, but the address is ${nodePortTexts[miss.because]}`;
  }
}

const nodePortTexts = {
  "not an address of this node": "not one of this node",
  loopback: "loopback, which serves none",
  "not in nodePortAddresses": "not within nodePortAddresses",
} as const;

/** Returns which endpoints a packet may go to, and why. */
export function routeText({ endpoints, because }: Route): string {
  switch (because) {
    case "internal policy":
    case "external policy": {
      const [side] = because.split(" ");
      const policy = endpoints === "all" ? "Cluster: endpoints of all nodes" : "Local: endpoints of this node";
      return `${side}TrafficPolicy ${policy}`;
    }
    case "local pod":
      return "externalTrafficPolicy Local, but from a pod of this node: endpoints of all nodes";
    case "node":
      return "externalTrafficPolicy Local, but from this node itself: endpoints of all nodes";
  }
}

/** Returns the effect of hints on the endpoints. */
export function hintText(hints: Exclude<HintUse, { readonly type: "unused" }>, { endpoints }: Route): string {
  if (endpoints === "local") return "hints: not used when only endpoints of this node count";
  return hints.type === "node" ? `hints: for node ${hints.node}` : `hints: for zone ${hints.zone}`;
}

/** Returns why an endpoint is a candidate. */
export function takenText(reason: TakenReason): string {
  if (reason.type === "node hint") return `hinted for node ${reason.node}`;
  return reason.type === "zone hint" ? `hinted for zone ${reason.zone}` : reason.type;
}

/** Returns whether a packet keeps its source, and why. */
export function masqueradeText({ masqueraded, because }: Masquerade): string {
  return masqueraded
    ? `the source becomes this node's address (${masqueradeTexts[because]})`
    : `the source is kept (${stays[because]})`;
}

const masqueradeTexts = {
  hairpin: "the pod meets itself",
  "external policy": "externalTrafficPolicy Cluster",
  "source is not a pod": "it is not a pod of the cluster",
  node: "sent by this node",
} as const;

const stays = {
  "source is a pod": "a pod of the cluster",
  "address of the pods": "the node's own among the pods' addresses",
  "external policy": "externalTrafficPolicy Local",
  "local pod": "a pod of this node",
  "pod to pod": "from a pod of this node to a pod",
  "stays here": "the endpoint is an address of this node",
} as const;
