import type { AttachmentRecord } from "../attachment/attachment.ts";
import { isName, MAX_NAME_LENGTH } from "../ipam/owner.ts";
import { checkInterfaceName } from "./configuration/names.ts";
import { CniError, CniErrorCode } from "./error.ts";

/** The parameters of an ADD or DEL, validated (CNI specification, "Parameters"). */
export interface Attachment {
  /** `[a-zA-Z0-9][a-zA-Z0-9_.-]*`, at most 200 characters: it becomes part of a file name. */
  readonly containerId: string;
  /** At most 15 bytes, one path component, no white space, no colon. */
  readonly ifname: string;
  /** The path of the network namespace; undefined for a DEL after the namespace is gone. */
  readonly netns: string | undefined;
  readonly arguments: CniArguments;
}

/** The pairs of CNI_ARGS the plugin reads. Kubernetes runtimes set the K8S_ ones. */
export interface CniArguments {
  readonly mac: string | undefined;
  readonly ip: string | undefined;
  readonly pod: { readonly namespace: string; readonly name: string; readonly uid: string } | undefined;
}

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the parameters of a verb that concerns one attachment.
 *
 * Variables that are set but empty count as missing: libcni always sets all of them.
 *
 * @throws CniError 4 naming every missing variable, or the one whose value is refused
 */
export function requestedAttachment(environment: Environment, verb: "ADD" | "CHECK" | "DEL"): Attachment {
  const required = verb === "DEL" ? ["CNI_CONTAINERID", "CNI_IFNAME"] : ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"];
  const missing: string[] = [];
  for (const name of required) if (!environment[name]) missing.push(name);
  if (missing.length > 0) {
    throw new CniError(
      CniErrorCode.INVALID_ENVIRONMENT,
      `required env variables [${missing.join(",")}] missing`,
      `${verb} needs ${required.join(", ")}; the container runtime sets them`,
    );
  }
  return {
    containerId: checkContainerId(environment["CNI_CONTAINERID"] ?? ""),
    ifname: checkInterfaceName(environment["CNI_IFNAME"] ?? "", "CNI_IFNAME", CniErrorCode.INVALID_ENVIRONMENT),
    netns: environment["CNI_NETNS"] === "" ? undefined : environment["CNI_NETNS"],
    // A DEL needs none of them, and must not fail because of an argument that the ADD refused.
    arguments: readArguments((verb === "ADD" && environment["CNI_ARGS"]) || ""),
  };
}

function checkContainerId(id: string): string {
  if (!isName(id)) {
    throw new CniError(
      CniErrorCode.INVALID_ENVIRONMENT,
      `invalid characters in containerID: CNI_CONTAINERID must be a letter or digit, then letters, digits, "_", "." or "-", at most ${MAX_NAME_LENGTH} in all`,
      JSON.stringify(id.slice(0, 2 * MAX_NAME_LENGTH)),
    );
  }
  return id;
}

/** Returns CNI_ARGS as a runtime of Kubernetes sets them for an attachment; undefined where its pod is not known. */
export function argumentsOf(record: Pick<AttachmentRecord, "containerId" | "pod"> | undefined): string | undefined {
  if (record?.pod === undefined) return undefined;
  const { namespace, name, uid } = record.pod;
  return `IgnoreUnknown=1;K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name};K8S_POD_INFRA_CONTAINER_ID=${record.containerId};K8S_POD_UID=${uid}`;
}

/** Reads CNI_ARGS. Names that a pod of Kubernetes cannot have count as no pod. */
function readArguments(text: string): CniArguments {
  const pairs = readPairs(text);
  const namespace = pairs.get("K8S_POD_NAMESPACE");
  const name = pairs.get("K8S_POD_NAME");
  const isPod = namespace !== undefined && name !== undefined && isDnsName(namespace) && isDnsName(name);
  return {
    mac: pairs.get("MAC") || undefined,
    ip: pairs.get("IP") || undefined,
    pod: isPod ? { namespace, name, uid: cleanUid(pairs.get("K8S_POD_UID")) } : undefined,
  };
}

/**
 * Reads `KEY=value` pairs joined by semicolons, as strictly as the reference library: keys are case-sensitive, and an
 * unknown one is refused unless `IgnoreUnknown` is set.
 */
function readPairs(text: string): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>();
  const unknown: string[] = [];
  for (const pair of text === "" ? [] : text.split(";")) {
    const [key, value, ...rest] = pair.split("=");
    if (key === undefined || value === undefined || rest.length > 0) {
      throw new CniError(
        CniErrorCode.INVALID_ENVIRONMENT,
        `CNI_ARGS: invalid pair ${JSON.stringify(pair)}; expected KEY=value pairs joined by ";"`,
      );
    }
    pairs.set(key, value);
    if (!isKnownArgument(key)) unknown.push(key);
  }
  const ignoreUnknown = ["1", "true"].includes((pairs.get("IgnoreUnknown") ?? "").toLowerCase());
  if (unknown.length > 0 && !ignoreUnknown) {
    throw new CniError(
      CniErrorCode.INVALID_ENVIRONMENT,
      `CNI_ARGS: unknown args ${JSON.stringify(unknown)}; expected MAC, IP or K8S_POD_*, or set IgnoreUnknown=1`,
    );
  }
  return pairs;
}

function isKnownArgument(key: string): boolean {
  return key === "IgnoreUnknown" || key === "MAC" || key === "IP" || key.startsWith("K8S_POD_");
}

/** Whether a text can be a Kubernetes object name: a DNS name (RFC 1123) of at most 253 characters. */
function isDnsName(text: string): boolean {
  return text.length <= 253 && /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(text);
}

function cleanUid(uid: string | undefined): string {
  return uid !== undefined && /^[a-zA-Z0-9-]{1,64}$/.test(uid) ? uid : "";
}
