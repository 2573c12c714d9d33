import type { Kind } from "../cluster/model.ts";

/** Something that whoever looks after an object of the cluster has to know of it. */
export interface Notice {
  readonly regarding: Regarding;
  readonly reason: Reason;
  /** In whole sentences, with the way out where there is one; the same on every node. */
  readonly note: string;
}

/** The object a notice is about. */
export interface Regarding {
  readonly kind: Kind;
  /** `namespace/name`, or the name alone of a kind without namespaces. */
  readonly key: string;
  /** Empty where nobody knows it. */
  readonly uid: string;
}

/** A node by its name; its Event gets the uid by which `kubectl describe node` looks for it. */
export function nodeNamed(name: string): Regarding {
  return { kind: "Node", key: name, uid: "" };
}

/** What a notice is about, for people and for filters: see docs/events.md. */
export type Reason =
  /** An object, or a part of it, could not be read. */
  | "NotUsedAsItIs"
  /** A policy allows less than it says. */
  | "PolicyNotInForce"
  /** Something of a Service is not served. */
  | "ServiceNotServed"
  /** A pod is not reached by one of its host ports. */
  | "HostPortNotServed"
  /** A Service takes traffic to any address its author likes (CVE-2020-8554). */
  | "ExternalIPsServed"
  /** A pod has more of its node's table of connections than it may have. */
  | "TooManyConnections"
  /** A node cannot have pods, or not as it should: the plugin, its configuration or the node's pod CIDRs. */
  | "InstallationProblem"
  /** Pods of a network cannot be attached on a node. */
  | "AttachmentsFail"
  /** A node does not reach pods of others, or Services, as it should. */
  | "RoutesProblem"
  /** Pods of a node lack their network, or a setting of the administrator's keeps their packets from getting through. */
  | "NodeStateProblem";

/** Who makes notices known. It must not throw, and returns at once. */
export interface NoticeSink {
  tell(notice: Notice): void;
}

/** For tests: keeps what it is told. */
export function recordingNotices(): NoticeSink & { readonly notices: readonly Notice[] } {
  const notices: Notice[] = [];
  return Object.freeze({ notices, tell: (notice: Notice) => void notices.push(notice) });
}
