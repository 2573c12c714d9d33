import type { Kind } from "../../objects/model.ts";

/** A fact about an object of the cluster for the people responsible for it. */
export interface Notice {
  readonly regarding: Regarding;
  readonly reason: Reason;
  /** Complete sentences, with the way out if there is one; the same on every node. */
  readonly note: string;
}

/** The object that a notice is about. */
export interface Regarding {
  readonly kind: Kind;
  /** `namespace/name`, or only the name for a cluster-scoped kind. */
  readonly key: string;
  /** Empty where it is unknown. */
  readonly uid: string;
}

/** Returns a reference to a node; its Event gets the uid that `kubectl describe node` searches for. */
export function nodeNamed(name: string): Regarding {
  return { kind: "Node", key: name, uid: "" };
}

/** The subjects of notices, for people and filters (docs/events.md), each with the action of Drawbridge that leads to it. */
export const ACTIONS = {
  /** An object, or a part of it, is invalid. */
  NotUsedAsItIs: "Read",
  /** A policy allows less than its text says. */
  PolicyNotInForce: "Compile",
  /** Part of a Service is not served. */
  ServiceNotServed: "Serve",
  /** A pod cannot be reached at one of its host ports. */
  HostPortNotServed: "Serve",
  /** A Service takes traffic to any address that its author chooses (CVE-2020-8554). */
  ExternalIPsServed: "Serve",
  /** A pod has more entries in its node's conntrack table than its limit. */
  TooManyConnections: "Limit",
  /** A node cannot attach pods properly: the plugin, its configuration or the node's pod CIDRs are at fault. */
  InstallationProblem: "Install",
  /** Pods of a network cannot be attached on a node. */
  AttachmentsFail: "Attach",
  /** A node does not reach other nodes' pods, or Services, properly. */
  RoutesProblem: "Route",
  /** Pods of a node lack their network, or an administrator's setting keeps their packets from getting through. */
  NodeStateProblem: "Repair",
} as const;

export type Reason = keyof typeof ACTIONS;

/** Reports notices. Its method returns immediately and must not throw. */
export interface NoticeSink {
  tell(notice: Notice): void;
}
