import type { AttachmentRecord } from "../attachment/attachment.ts";
import type { Owner } from "../ipam/owner.ts";
import {
  closeNamespace,
  currentNamespace,
  isSameNamespace,
  type NetworkNamespace,
  openNamespace,
} from "../kernel/network_namespace.ts";
import { realWaiting } from "../kernel/waiting.ts";
import { type Configured, configuredVersion, decodeConfiguration } from "./configuration/decoding.ts";
import {
  type DetachConfiguration,
  detachConfiguration,
  releaseConfiguration,
} from "./configuration/detach_configuration.ts";
import { type DetachInput, detachShape, type NetworkInput } from "./configuration/network_input.ts";
import { detachEnded } from "./del/marked_sandboxes.ts";
import type { AddressTaker } from "./delegation/address_taker.ts";
import { delegatedDirectory, foreignIpam, networkShapeFor, type PluginInput } from "./delegation/ipam_choice.ts";
import { argumentsOf, type Attachment, type Environment, requestedAttachment } from "./environment.ts";
import { CniError, CniErrorCode } from "./error.ts";
import type { PluginMachine } from "./host.ts";
import type { Shape } from "./json.ts";
import type { AddResult } from "./result.ts";
import { type CniVersion, supportedVersions } from "./version.ts";
import { SyscallError } from "../kernel/syscall/syscalls.ts";

export { machine } from "./host.ts";

/** The plugins that this executable implements, by the name it is executed under. */
export type Face = "drawbridge" | "drawbridge-ipam" | "loopback";

/** Returns the last component of argv 0. */
export function nameOf(argv0: string): string {
  return argv0.slice(argv0.lastIndexOf("/") + 1);
}

/** Returns the face for the last component of argv 0; any other name means the interface plugin. */
export function faceOf(argv0: string): Face {
  const name = nameOf(argv0);
  return name === "drawbridge-ipam" || name === "loopback" ? name : "drawbridge";
}

/** Returns the version to print an error in: the configuration's if it can be read, otherwise the newest. */
export function errorVersion(stdin: string): CniVersion {
  try {
    return configuredVersion(stdin);
  } catch {
    return "1.1.0";
  }
}

/** The verbs that were added to the specification later, and the first version that has each. */
const FIRST_VERSIONS = { CHECK: "0.4.0", GC: "1.1.0", STATUS: "1.1.0" } as const satisfies Record<string, CniVersion>;

/**
 * Carries out ADD, CHECK, DEL, GC or STATUS.
 *
 * @param verb CNI_COMMAND
 * @returns the text for standard output; empty for every verb but ADD
 * @throws CniError or DrawbridgeError; a failed ADD leaves nothing. Missing variables are reported before anything else
 *   (P4), then a version of the configuration that does not have the verb (P8)
 */
export function runVerb(node: PluginMachine, face: Face, verb: string, call: PluginInput): string {
  const { environment, stdin } = call;
  switch (verb) {
    case "ADD": {
      const attachment = requestedAttachment(environment, verb);
      return runAdd(node, face, call, attachment, decodeConfiguration(stdin, networkShapeFor(call.self)));
    }
    case "CHECK": {
      const attachment = requestedAttachment(environment, verb);
      runCheck(node, face, call, attachment, decodeFor(verb, stdin, networkShapeFor(call.self)));
      return "";
    }
    case "DEL": {
      const attachment = requestedAttachment(environment, verb);
      return runDel(node, face, call, attachment, decodeConfiguration(stdin, detachShape));
    }
    case "GC":
      runGc(node, face, call);
      return "";
    case "STATUS":
      answerStatus(node, face, call);
      return "";
    default:
      throw new CniError(
        CniErrorCode.INVALID_ENVIRONMENT,
        `unknown CNI_COMMAND: ${verb.slice(0, 64)}; expected ADD, CHECK, DEL, GC, STATUS or VERSION`,
      );
  }
}

/**
 * Decodes a verb's configuration. @throws CniError 1 if its version lacks the verb (P8); as {@link decodeConfiguration}
 */
function decodeFor<const S extends Shape>(
  verb: keyof typeof FIRST_VERSIONS,
  stdin: string,
  shape: S | ((value: object) => S),
): Configured<S> {
  return decodeConfiguration(stdin, shape, (version) => {
    if (supportedVersions.indexOf(version) >= supportedVersions.indexOf(FIRST_VERSIONS[verb])) return;
    throw new CniError(
      CniErrorCode.INCOMPATIBLE_VERSION,
      `config version does not allow ${verb}`,
      `config is "${version}"; expected ${FIRST_VERSIONS[verb]} or later`,
    );
  });
}

function runAdd(
  node: PluginMachine,
  face: Face,
  call: PluginInput,
  attachment: Attachment,
  input: NetworkInput,
): string {
  const { cniVersion: version, prevResult } = input;
  if (face === "drawbridge-ipam") {
    const { allocateForOthers, networkConfiguration, resultObject } = node.adding();
    const configuration = networkConfiguration(input, attachment.arguments);
    return print(resultObject(allocateForOthers(node, configuration, attachment), version));
  }
  if (input.detachOnly === true) throw onlyDetaches(CniErrorCode.TRY_AGAIN_LATER);
  const foreign = face === "drawbridge" ? foreignIpam(call, input) : undefined;
  const configuration =
    face === "drawbridge"
      ? node.adding().bridgeConfiguration(input, attachment.arguments, foreign !== undefined)
      : undefined;
  const previous = prevResult === undefined ? undefined : node.rare().previousResult(prevResult, call.stdin);
  return withNamespaces(node, call.environment, attachment, (home, namespace) => {
    if (namespace === undefined) throw missingNamespace(attachment);
    const { noteOutcome, resultObject } = node.adding();
    if (configuration !== undefined) {
      waitForOtherCalls(node, namespace);
      detachEnded(node, configuration, detachOf(node, call, input, home));
      const giver = foreign && node.rare().addressGiver(node, foreign, input, configuration, attachment);
      const attach = (): AddResult => node.adding().add(node, configuration, attachment, { home, namespace }, giver);
      const result = noteOutcome(node, configuration, attach, giver !== undefined);
      return print(
        previous === undefined ? resultObject(result, version) : node.rare().chainedResult(result, version, previous),
      );
    }
    const { loopbackResult, setLoopback } = node.loopback();
    setLoopback(node, home, namespace, true);
    if (previous !== undefined) return print(node.rare().unchangedResult(previous, version));
    return print(resultObject(loopbackResult(namespace.path), version));
  });
}

/** Returns the error of a node from which Drawbridge was uninstalled: its pods can only be deleted (UNINSTALL-03). */
function onlyDetaches(code: CniErrorCode): CniError {
  return new CniError(
    code,
    "Drawbridge was uninstalled from this node, where pods can only be deleted; expected the network add-on that comes next: install it",
    "the network configuration says detachOnly",
  );
}

function runCheck(
  node: PluginMachine,
  face: Face,
  call: PluginInput,
  attachment: Attachment,
  input: NetworkInput,
): void {
  if (face === "drawbridge-ipam") return node.adding().checkForOthers(node, releaseConfiguration(input), attachment);
  const foreign = face === "drawbridge" ? foreignIpam(call, input) : undefined;
  const configuration =
    face === "drawbridge"
      ? node.adding().bridgeConfiguration(input, attachment.arguments, foreign !== undefined)
      : undefined;
  return withNamespaces(node, call.environment, attachment, (home, namespace) => {
    if (namespace === undefined) throw missingNamespace(attachment);
    if (configuration === undefined) return node.loopback().checkLoopback(node, home, namespace);
    if (foreign !== undefined) node.rare().runIpam(node, foreign, "CHECK");
    return node.rare().check(node, configuration, attachment, input.prevResult, { home, namespace });
  });
}

function runGc(node: PluginMachine, face: Face, call: PluginInput): void {
  const { collectReservations, gc, VALID_ATTACHMENTS, validAttachments, validAttachmentsShape } = node.rare();
  const input = decodeFor("GC", call.stdin, { ...detachShape, ...validAttachmentsShape });
  const isValid = validAttachments(input[VALID_ATTACHMENTS]);
  if (isValid === undefined)
    call.warn?.(`GC of network ${input.name} without ${VALID_ATTACHMENTS}: nothing is removed`);
  if (face === "loopback") return;
  if (face === "drawbridge-ipam") {
    if (isValid !== undefined) collectReservations(node, releaseConfiguration(input), isValid);
    return;
  }
  const forward = (): void => node.rare().collectOfGiver(node, call, input);
  if (isValid === undefined) return forward();
  const configuration = detachConfiguration(input);
  withNamespaces(node, call.environment, { containerId: "", ifname: "", ...NOBODY }, (home) => {
    gc(node, configuration, isValid, detachOf(node, call, input, home), forward);
  });
}

const NOBODY = { netns: undefined, arguments: { mac: undefined, ip: undefined, pod: undefined } };

/**
 * Returns the DEL for attachments of a network whose namespaces are gone. All of them together wait for the daemon as
 * long as one would: if it does not answer by then, the plugin removes the others without it.
 */
function detachOf(
  node: PluginMachine,
  call: PluginInput,
  input: DetachInput,
  home: NetworkNamespace,
): (owner: Owner) => void {
  let deadline: number | undefined;
  return (owner) => {
    const { policyd, ...places } = detachConfiguration(input);
    deadline ??= realWaiting.now() + (policyd?.wait ?? 0);
    const wait = Math.max(1, Math.ceil(deadline - realWaiting.now()));
    const configuration = { ...places, policyd: policyd && { ...policyd, wait } };
    const attachment = { ...owner, ...NOBODY };
    const record = node.deleting().readAttachment(places.runDir, places.name, owner, node.files);
    const taker = node.deleting().addressTaker(node, callFor(call, owner, record), input, configuration, attachment);
    delAll(node, configuration, attachment, { home, namespace: undefined }, taker);
  };
}

/**
 * Returns the call with the variables of another attachment's DEL. A GC has none, and an ADD has those of its own pod.
 */
function callFor(call: PluginInput, { containerId, ifname }: Owner, record: AttachmentRecord | undefined): PluginInput {
  const own = { CNI_CONTAINERID: containerId, CNI_IFNAME: ifname, CNI_NETNS: "", CNI_ARGS: argumentsOf(record) };
  return { ...call, environment: { ...call.environment, ...own } };
}

/**
 * Answers STATUS. An external IPAM plugin is asked first, and its error becomes ours. `loopback` and `drawbridge-ipam`
 * always succeed, even when no address is free.
 *
 * @throws CniError 50, also if the configuration only detaches, and 51; 1, 6 and 7 for the configuration
 */
function answerStatus(node: PluginMachine, face: Face, call: PluginInput): void {
  const input = decodeFor("STATUS", call.stdin, networkShapeFor(call.self));
  if (face !== "drawbridge") return;
  if (input.detachOnly === true) throw onlyDetaches(CniErrorCode.NOT_AVAILABLE);
  const { status, statusOfGiver } = node.rare();
  const isForeign = statusOfGiver(node, call, input);
  status(node, input, detachConfiguration(input), isForeign);
}

function runDel(
  node: PluginMachine,
  face: Face,
  call: PluginInput,
  attachment: Attachment,
  input: DetachInput,
): string {
  if (face === "drawbridge-ipam") {
    node.adding().releaseForOthers(node, releaseConfiguration(input), attachment);
    return "";
  }
  const configuration = face === "drawbridge" ? detachConfiguration(input) : undefined;
  return withNamespaces(node, call.environment, attachment, (home, namespace) => {
    if (configuration !== undefined) {
      if (namespace !== undefined) waitForOtherCalls(node, namespace);
      const taker = node.deleting().addressTaker(node, call, input, configuration, attachment);
      delAll(node, configuration, attachment, { home, namespace }, taker);
    } else if (namespace !== undefined) node.loopback().setLoopback(node, home, namespace, false);
    return "";
  });
}

/**
 * Carries out our DEL and then the DEL of an external IPAM plugin: addresses must not become free before nothing
 * answers to them. When that plugin fails, everything of ours has been removed, and the next DEL calls it again.
 */
function delAll(
  node: PluginMachine,
  configuration: DetachConfiguration,
  attachment: Attachment,
  { home, namespace }: { readonly home: NetworkNamespace; readonly namespace: NetworkNamespace | undefined },
  taker: AddressTaker | undefined,
): void {
  try {
    const { ipam, runDir } = configuration;
    const dataDir = taker === undefined ? ipam.dataDir : delegatedDirectory(runDir);
    node.deleting().del(node, { ...configuration, ipam: { dataDir } }, attachment, home, namespace);
    taker?.take();
  } finally {
    taker?.end();
  }
}

function print(result: unknown): string {
  return JSON.stringify(result, undefined, 4);
}

/**
 * Longer than an ADD takes that does not wait. A program in the pod could hold the lock, since it can open its own
 * namespace: it can delay a call by this time.
 */
export const LONGEST_WAIT_MILLISECONDS = 5000;

/**
 * Waits until no other call works on a pod, and makes others wait until the namespace is closed (P19).
 *
 * A runtime makes one call for a container at a time, as the CNI specification demands. But two runtimes on a node do
 * not know of each other: of two ADDs, the failing one would remove the record of the other's pod, and an ADD during a
 * DEL would leave what it made. After {@link LONGEST_WAIT_MILLISECONDS} the call continues without the lock.
 */
export function waitForOtherCalls(
  { syscalls }: Pick<PluginMachine, "syscalls">,
  { fd }: Pick<NetworkNamespace, "fd">,
): void {
  syscalls.lock(fd, LONGEST_WAIT_MILLISECONDS);
}

/**
 * Runs an action with the node's namespace and the pod's, which is undefined when it is gone.
 *
 * @throws CniError 8 from {@link openPodNamespace}, and whatever the action throws
 */
function withNamespaces<T>(
  node: PluginMachine,
  environment: Environment,
  attachment: Attachment,
  action: (home: NetworkNamespace, namespace: NetworkNamespace | undefined) => T,
): T {
  const home = currentNamespace(node.syscalls);
  try {
    const namespace = openPodNamespace(node, environment, home, attachment);
    try {
      return action(home, namespace);
    } finally {
      if (namespace !== undefined) closeNamespace(node.syscalls, namespace);
    }
  } finally {
    closeNamespace(node.syscalls, home);
  }
}

/**
 * Opens the pod's namespace and checks that it is not the node's own: a plugin that trusted such a path would wire the
 * node to itself (P14). The reference plugins notice this only afterwards.
 *
 * @returns undefined when the path does not exist or leads to something else, such as the file a namespace was mounted
 *   on
 * @throws CniError 8
 */
function openPodNamespace(
  node: PluginMachine,
  environment: Environment,
  home: NetworkNamespace,
  attachment: Attachment,
): NetworkNamespace | undefined {
  if (attachment.netns === undefined) return undefined;
  const namespace = openIfPresent(node, attachment.netns);
  if (namespace === undefined) return undefined;
  // All namespaces are files of one file system (nsfs), so a file on another device is not a namespace.
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

function openIfPresent(node: PluginMachine, path: string): NetworkNamespace | undefined {
  try {
    return openNamespace(node.syscalls, path);
  } catch (error) {
    // Opening /proc/PID/ns/net of an ended process fails with ESRCH or EACCES.
    if (error instanceof SyscallError && ["ENOENT", "ENOTDIR", "ESRCH", "EACCES"].includes(error.errnoName))
      return undefined;
    throw new CniError(
      CniErrorCode.INVALID_NETNS,
      `CNI_NETNS: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}

/** Returns the error for a pod's namespace that does not exist. */
function missingNamespace({ netns }: Attachment): CniError {
  return new CniError(
    CniErrorCode.INVALID_NETNS,
    `CNI_NETNS: ${JSON.stringify(netns)} does not exist or is not a network namespace; expected one such as /run/netns/NAME`,
  );
}
