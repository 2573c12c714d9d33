import type { NetworkNamespace } from "../kernel/network_namespace.ts";
import { closeNamespace, currentNamespace, isSameNamespace, openNamespace } from "../kernel/network_namespace.ts";
import { SyscallError } from "../kernel/syscall/syscalls.ts";
import type { Work } from "../kernel/waiting.ts";
import { carryOut } from "../kernel/waiting.ts";
import { add } from "./add.ts";
import { bridgeConfiguration, decodeConfiguration, networkConfiguration, networkName } from "./configuration.ts";
import { del } from "./del.ts";
import { detachConfiguration, releaseConfiguration } from "./detach_configuration.ts";
import type { Attachment, Environment } from "./environment.ts";
import { readAttachment } from "./environment.ts";
import { CniError, CniErrorCode } from "./error.ts";
import { allocateForOthers, releaseForOthers } from "./ipam_plugin.ts";
import { loopbackResult, setLoopback } from "./loopback.ts";
import type { Node } from "./node.ts";
import { resultObject } from "./result.ts";
import type { DetachInput, NetworkInput } from "./network_input.ts";
import { detachShape, networkShape } from "./network_input.ts";
import type { CniVersion } from "./version.ts";
import { negotiateVersion } from "./version.ts";

export { machine } from "./node.ts";

/** The plugins this executable is, by the name it is executed under. */
export type Face = "drawbridge" | "drawbridge-ipam" | "loopback";

/** The face for the last component of argv 0; any other name means the interface plugin. */
export function faceOf(argv0: string): Face {
  const name = argv0.slice(argv0.lastIndexOf("/") + 1);
  return name === "drawbridge-ipam" || name === "loopback" ? name : "drawbridge";
}

/** The version to print an error in: the configuration's where it can be read, else the newest. */
export function errorVersion(stdin: string): CniVersion {
  try {
    return negotiateVersion(decodeConfiguration(stdin, { cniVersion: "string" }).cniVersion);
  } catch {
    return "1.1.0";
  }
}

/**
 * ADD or DEL.
 *
 * Whoever goes on with it must have the thread in the network namespace it began in.
 *
 * @param verb CNI_COMMAND
 * @param stdin the network configuration
 * @returns what goes to standard output; empty for DEL
 * @throws CniError or DrawbridgeError; nothing is left behind by a failed ADD. CHECK, which is not there, is refused behind its
 *   variables (P4)
 */
export function* verbWork(node: Node, face: Face, verb: string, environment: Environment, stdin: string): Work<string> {
  if (verb !== "ADD" && verb !== "DEL") {
    if (verb === "CHECK") readAttachment(environment, verb);
    throw new CniError(
      CniErrorCode.INVALID_ENVIRONMENT,
      `unknown CNI_COMMAND: ${verb.slice(0, 64)}; expected ADD, DEL or VERSION`,
    );
  }
  const attachment = readAttachment(environment, verb);
  return verb === "ADD"
    ? yield* runAdd(node, face, environment, attachment, decodeConfiguration(stdin, networkShape))
    : yield* runDel(node, face, environment, attachment, decodeConfiguration(stdin, detachShape));
}

/** The same without other work beside it. @throws as {@link verbWork} */
export function runVerb(node: Node, face: Face, verb: string, environment: Environment, stdin: string): string {
  return carryOut(verbWork(node, face, verb, environment, stdin));
}

function* runAdd(
  node: Node,
  face: Face,
  environment: Environment,
  attachment: Attachment,
  input: NetworkInput,
): Work<string> {
  networkName(input);
  const version = negotiateVersion(input.cniVersion);
  if (face === "drawbridge-ipam") {
    const configuration = networkConfiguration(input, attachment.arguments);
    return print(resultObject(allocateForOthers(node, configuration, attachment), version));
  }
  const configuration = face === "drawbridge" ? bridgeConfiguration(input, attachment.arguments) : undefined;
  return yield* withNamespaces(node, environment, attachment, function* (home, namespace) {
    if (namespace === undefined) {
      throw new CniError(
        CniErrorCode.INVALID_NETNS,
        `CNI_NETNS: ${JSON.stringify(attachment.netns)} does not exist or is no network namespace; expected one such as /run/netns/NAME`,
      );
    }
    if (configuration !== undefined) {
      return print(resultObject(yield* add(node, configuration, attachment, home, namespace), version));
    }
    setLoopback(node, home, namespace, true);
    // libcni hands an earlier result over in the version of the configuration.
    const earlier = input.prevResult === undefined ? undefined : { ...input.prevResult, cniVersion: version };
    return print(earlier ?? resultObject(loopbackResult(namespace.path), version));
  });
}

function* runDel(
  node: Node,
  face: Face,
  environment: Environment,
  attachment: Attachment,
  input: DetachInput,
): Work<string> {
  networkName(input);
  if (face === "drawbridge-ipam") {
    releaseForOthers(node, releaseConfiguration(input), attachment);
    return "";
  }
  const configuration = face === "drawbridge" ? detachConfiguration(input) : undefined;
  return yield* withNamespaces(node, environment, attachment, function* (home, namespace) {
    if (configuration !== undefined) yield* del(node, configuration, attachment, home, namespace);
    else if (namespace !== undefined) setLoopback(node, home, namespace, false);
    return "";
  });
}

/**
 * Runs an action with the node's namespace and the pod's, which is undefined when it is gone.
 *
 * @throws CniError 8 from {@link openPodNamespace}, and whatever the action throws
 */
function* withNamespaces<T>(
  node: Node,
  environment: Environment,
  attachment: Attachment,
  action: (home: NetworkNamespace, namespace: NetworkNamespace | undefined) => Work<T>,
): Work<T> {
  const home = currentNamespace(node.syscalls);
  try {
    const namespace = openPodNamespace(node, environment, home, attachment);
    try {
      return yield* action(home, namespace);
    } finally {
      if (namespace !== undefined) closeNamespace(node.syscalls, namespace);
    }
  } finally {
    closeNamespace(node.syscalls, home);
  }
}

/**
 * Opens the pod's namespace, after making sure that it is not the node's own: a plugin that trusted such a path would
 * wire the node to itself (P14). The reference plugins notice only afterwards.
 *
 * @returns undefined when the path does not exist or leads to something else, such as the file a namespace was mounted on
 * @throws CniError 8
 */
function openPodNamespace(
  node: Node,
  environment: Environment,
  home: NetworkNamespace,
  attachment: Attachment,
): NetworkNamespace | undefined {
  if (attachment.netns === undefined) return undefined;
  const namespace = openIfPresent(node, attachment.netns);
  if (namespace === undefined) return undefined;
  // All namespaces are files of one file system (nsfs), so a file on another device is none.
  if (namespace.device !== home.device) {
    closeNamespace(node.syscalls, namespace);
    return undefined;
  }
  const override = ["1", "true"].includes((environment["CNI_NETNS_OVERRIDE"] ?? "").toLowerCase());
  if (isSameNamespace(home, namespace) && !override) {
    closeNamespace(node.syscalls, namespace);
    throw new CniError(
      CniErrorCode.INVALID_NETNS,
      `CNI_NETNS: ${JSON.stringify(attachment.netns)}: plugin's netns and netns from CNI_NETNS should not be the same`,
    );
  }
  return namespace;
}

function openIfPresent(node: Node, path: string): NetworkNamespace | undefined {
  try {
    return openNamespace(node.syscalls, path);
  } catch (error) {
    // A process that has ended leaves ESRCH or EACCES behind its /proc/PID/ns/net.
    if (error instanceof SyscallError && ["ENOENT", "ENOTDIR", "ESRCH", "EACCES"].includes(error.errnoName))
      return undefined;
    throw new CniError(
      CniErrorCode.INVALID_NETNS,
      `CNI_NETNS: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

function print(result: unknown): string {
  return JSON.stringify(result, undefined, 4);
}
