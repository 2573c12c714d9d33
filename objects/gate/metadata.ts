import { expectLabelName, expectName, expectLabelValue } from "../name.ts";
import type { Reader } from "./reader.ts";
import type { ProxyLabels } from "../model.ts";

/** The `metadata` of an object, with checked names. */
export interface Metadata {
  readonly reader: Reader;
  readonly name: string;
  readonly isTerminating: boolean;
}

export interface NamespacedMetadata extends Metadata {
  readonly namespace: string;
  readonly key: string;
}

/**
 * Returns the metadata of an object without a namespace, whose key is its name.
 *
 * @throws DrawbridgeError ERR_OBJECT for a missing or invalid name
 */
export function readMetadata(object: Reader): Metadata {
  const reader = object.object("metadata");
  return {
    reader,
    name: expectName(reader.get("name"), reader.path("name")),
    isTerminating: reader.optionalString("deletionTimestamp") !== undefined,
  };
}

/** The longest uid; those of the API server are UUIDs. */
export const LONGEST_UID = 128;

/** Returns the uid of an object; empty without a valid one, which then distinguishes it from no other object. */
export function readUid(metadata: Reader): string {
  return metadata.attempt(() => metadata.optionalString("uid", LONGEST_UID)) ?? "";
}

const LARGEST_GENERATION = Number.MAX_SAFE_INTEGER;

/** Returns the generation of an object, which is only shown to people: 0 without a valid one. */
export function readGeneration(metadata: Reader): number {
  return metadata.attempt(() => metadata.optionalInteger("generation", 0, LARGEST_GENERATION)) ?? 0;
}

/** Returns the time of an object's creation, in milliseconds since 1970; infinite without a valid one. */
export function readCreation(metadata: Reader): number {
  const text = metadata.attempt(() => metadata.optionalString("creationTimestamp", LONGEST_TIME)) ?? "";
  const time = Date.parse(text);
  return Number.isNaN(time) ? Number.POSITIVE_INFINITY : time;
}

/** The longest text of a time: RFC 3339, with nanoseconds. */
const LONGEST_TIME = 64;

/**
 * Returns the metadata of an object in a namespace, which is "default" where a file names none, as for kubectl.
 *
 * @throws DrawbridgeError ERR_OBJECT for a missing or invalid name
 */
export function readNamespacedMetadata(object: Reader): NamespacedMetadata {
  const metadata = readMetadata(object);
  const given = metadata.reader.get("namespace");
  const isAbsent = given === undefined || given === "";
  const namespace = expectLabelName(isAbsent ? "default" : given, metadata.reader.path("namespace"));
  // A joined text is one piece of memory; a template would retain its parts, for each object of a cluster.
  return { ...metadata, namespace, key: [namespace, metadata.name].join("/") };
}

/** Reads the labels by which we do not serve a Service or a slice. @throws DrawbridgeError ERR_OBJECT */
export function readProxyLabels(metadata: Reader): ProxyLabels {
  const labels = metadata.object("labels");
  const key = "service.kubernetes.io/service-proxy-name";
  const proxyName = labels.get(key);
  return {
    proxyName: proxyName === undefined ? undefined : expectLabelValue(proxyName, labels.path(key)),
    hasHeadlessLabel: labels.get("service.kubernetes.io/headless") !== undefined,
  };
}
