import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { REPORTER } from "../api_write/http_api_writer.ts";
import { printable } from "../log/line.ts";
import { RESOURCES } from "../source/api/resources.ts";
import type { Notice, Reason, Regarding } from "./notice.ts";

/** An Event as the API server is asked to make it. */
export interface ClusterEvent {
  readonly namespace: string;
  /** The same for the same notice, whoever tells it and when. */
  readonly name: string;
  /** The object as JSON. */
  readonly body: string;
}

/** The API server's limits, in bytes (kubernetes pkg/apis/core/validation/events.go). */
const LONGEST_NOTE = 1024;
const LONGEST_INSTANCE = 128;
/** Where Events of objects without a namespace go, as the API server demands. */
const NAMESPACE_OF_CLUSTER = "default";
/** A name has 253 characters at most; the hash and its dot have 21. */
const LONGEST_OBJECT_NAME = 200;
const HASH_DIGITS = 20;

/** The action of Drawbridge during which it found out. */
const ACTIONS: Readonly<Record<Reason, string>> = {
  NotUsedAsItIs: "Read",
  PolicyNotInForce: "Compile",
  ServiceNotServed: "Serve",
  HostPortNotServed: "Serve",
  ExternalIPsServed: "Serve",
  TooManyConnections: "Limit",
  InstallationProblem: "Install",
  AttachmentsFail: "Attach",
  RoutesProblem: "Route",
  NodeStateProblem: "Repair",
};

/**
 * The Event of a notice. Its name is a hash of what it says: when every node of a cluster tells it, and each once more
 * after a restart, the API server keeps one.
 *
 * @param instance the node that tells it
 * @param time in milliseconds since the epoch
 */
export function eventOf(notice: Notice, instance: string, time: number): ClusterEvent {
  const { regarding, reason } = notice;
  const { namespace, name } = partsOf(regarding);
  const note = cut(printable(notice.note), LONGEST_NOTE);
  // As the kubelet has it, and as `kubectl describe node` looks for it.
  const uid = regarding.kind === "Node" ? name : regarding.uid;
  const identity = JSON.stringify([regarding.kind, regarding.key, uid, reason, note]);
  const hash = createHash("sha256").update(identity).digest("hex").slice(0, HASH_DIGITS);
  const metadata = {
    // A name must not have a dot or a dash before a dot.
    name: `${name.slice(0, LONGEST_OBJECT_NAME).replace(/[-.]+$/, "")}.${hash}`,
    namespace: namespace ?? NAMESPACE_OF_CLUSTER,
  };
  const event = {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata,
    eventTime: microTime(time),
    reportingController: REPORTER,
    reportingInstance: cut(instance, LONGEST_INSTANCE),
    type: "Warning",
    reason,
    action: ACTIONS[reason],
    note,
    regarding: {
      apiVersion: RESOURCES.find(({ kind }) => kind === regarding.kind)?.apiVersion,
      kind: regarding.kind,
      namespace,
      name,
      ...(uid === "" ? {} : { uid }),
    },
  };
  return { ...metadata, body: JSON.stringify(event) };
}

/** @returns without a namespace for an object of a kind that has none */
function partsOf({ key }: Regarding): { readonly namespace: string | undefined; readonly name: string } {
  const slash = key.indexOf("/");
  return slash < 0
    ? { namespace: undefined, name: key }
    : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** With six digits behind the second: the API server takes no other number of them. */
function microTime(time: number): string {
  return new Date(time).toISOString().replace("Z", "000Z");
}

/** So many bytes of a text at most, in whole characters, and a sign that something is missing. */
function cut(text: string, most: number): string {
  if (Buffer.byteLength(text) <= most) return text;
  const sign = "…";
  let left = most - Buffer.byteLength(sign);
  let kept = "";
  for (const character of text) {
    left -= Buffer.byteLength(character);
    if (left < 0) break;
    kept += character;
  }
  return `${kept}${sign}`;
}
