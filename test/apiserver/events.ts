import { Buffer } from "node:buffer";
import { type RawObject, recordOf } from "./storage.ts";

/** The resource's name in RBAC. */
export const EVENTS = "events.events.k8s.io";
/** The list of the Events of all namespaces. */
export const EVENTS_PATH = "/apis/events.k8s.io/v1/events";

const NAMESPACED = /^\/apis\/events\.k8s\.io\/v1\/namespaces\/([^/]+)\/events$/;
const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const MICRO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;

/** Returns the namespace of a path for creating Events; undefined for any other path. */
export function eventNamespaceOf(path: string): string | undefined {
  return NAMESPACED.exec(path)?.[1];
}

/** Returns a real server's objections to an Event (kubernetes pkg/apis/core/validation/events.go). */
export function eventProblems(event: RawObject, namespace: string): readonly string[] {
  const metadata = recordOf(event["metadata"]);
  const regarding = recordOf(event["regarding"]);
  const isText = (value: unknown, most: number): boolean =>
    typeof value === "string" && value !== "" && Buffer.byteLength(value) <= most;
  const name = metadata["name"];
  const checks: readonly (readonly [boolean, string])[] = [
    [event["apiVersion"] === "events.k8s.io/v1" && event["kind"] === "Event", "kind"],
    [typeof name === "string" && name.length <= 253 && SUBDOMAIN.test(name), "metadata.name"],
    [metadata["namespace"] === namespace, "metadata.namespace"],
    [(regarding["namespace"] ?? "default") === namespace, "regarding.namespace"],
    [isText(regarding["kind"], 128) && isText(regarding["name"], 253), "regarding"],
    [typeof event["eventTime"] === "string" && MICRO_TIME.test(event["eventTime"]), "eventTime"],
    [isText(event["reportingController"], 253), "reportingController"],
    [isText(event["reportingInstance"], 128), "reportingInstance"],
    [isText(event["action"], 128), "action"],
    [isText(event["reason"], 128), "reason"],
    [event["type"] === "Normal" || event["type"] === "Warning", "type"],
    [isText(event["note"], 1024), "note"],
  ];
  return checks.flatMap(([holds, field]) => (holds ? [] : [`${field}: Invalid value`]));
}
