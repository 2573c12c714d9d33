import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { StringDecoder } from "node:string_decoder";
import { REPORTER } from "../api_write/http_api_writer.ts";
import { printable } from "../../objects/printable.ts";
import { RESOURCES } from "../sources/api/resources.ts";
import { ACTIONS, type Notice, type Regarding } from "./notice.ts";

/** An Event as sent to the API server. */
export interface ClusterEvent {
  readonly namespace: string;
  /** Equal for equal notices, from any node at any time. */
  readonly name: string;
  /** The object as JSON. */
  readonly body: string;
}

/** The API server's limits, in bytes (kubernetes pkg/apis/core/validation/events.go). */
const LONGEST_NOTE = 1024;
const LONGEST_INSTANCE = 128;
/** Namespace for Events about objects without a namespace, as the API server requires. */
const NAMESPACE_OF_CLUSTER = "default";
/** A name has at most 253 characters; the dot and the hash take 21. */
const LONGEST_OBJECT_NAME = 200;
const HASH_DIGITS = 20;

/**
 * Returns the Event of a notice. Its name is a hash of its content: when every node of a cluster reports the same, and
 * each again after a restart, the API server keeps one Event.
 *
 * @param instance the node that reports it
 * @param time milliseconds since the epoch
 */
export function eventOf(notice: Notice, instance: string, time: number): ClusterEvent {
  const { regarding, reason } = notice;
  const { namespace, name } = partsOf(regarding);
  const note = cut(printable(notice.note), LONGEST_NOTE);
  // The uid that the kubelet uses, and that `kubectl describe node` searches for.
  const uid = regarding.kind === "Node" ? name : regarding.uid;
  const identity = JSON.stringify([regarding.kind, regarding.key, uid, reason, note]);
  const hash = createHash("sha256").update(identity).digest("hex").slice(0, HASH_DIGITS);
  const metadata = {
    // A name must not have a dot or a hyphen directly before a dot.
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

/** @returns no namespace for an object of a cluster-scoped kind */
function partsOf({ key }: Regarding): { readonly namespace: string | undefined; readonly name: string } {
  const slash = key.indexOf("/");
  return slash < 0
    ? { namespace: undefined, name: key }
    : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** Formats a time with six decimals of a second, the only number that the API server accepts. */
function microTime(time: number): string {
  return new Date(time).toISOString().replace("Z", "000Z");
}

/** Truncates a text to a number of bytes, in whole characters, and marks that with an ellipsis. */
function cut(text: string, most: number): string {
  if (Buffer.byteLength(text) <= most) return text;
  const sign = "…";
  const kept = Buffer.from(text).subarray(0, most - Buffer.byteLength(sign));
  return `${new StringDecoder("utf8").write(kept)}${sign}`;
}
