import type { AttachmentRecord } from "../attachment/attachment.ts";
import { endedAttachments } from "../attachment/ended.ts";
import type { Owner } from "../ipam/owner.ts";
import { DrawbridgeError } from "../kernel/error.ts";
import type { NetworkNamespace } from "../kernel/network_namespace.ts";
import { realWaiting } from "../kernel/waiting.ts";
import { configuredVersion } from "./configuration/decoding.ts";
import { type DetachConfiguration, detachConfiguration } from "./configuration/detach_configuration.ts";
import type { DetachInput } from "./configuration/network_input.ts";
import { type CallOf, decodeCall, type DecodedCall } from "./decoded_call.ts";
import { delegatedDirectory, foreignIpam, type PluginInput } from "./delegation/ipam_choice.ts";
import { argumentsOf } from "./environment.ts";
import { CniError, CniErrorCode } from "./error.ts";
import type { PluginMachine } from "./host.ts";
import { formatJson } from "./json.ts";
import { type NamespacesLeft, waitForOtherCalls, withNamespaces, withPod } from "./pod_lock.ts";
import type { AddResult } from "./result.ts";
import type { CniVersion } from "./version.ts";

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

/**
 * Carries out ADD, CHECK, DEL, GC or STATUS.
 *
 * @param verb CNI_COMMAND
 * @returns the text for standard output; empty for every verb but ADD
 * @throws CniError or DrawbridgeError; a failed ADD leaves nothing. The order of refusals is that of {@link decodeCall}
 */
export function runVerb(node: PluginMachine, face: Face, verb: string, call: PluginInput): string {
  const decoded = decodeCall(node, verb, call);
  switch (face) {
    case "drawbridge":
      return connectPods(node, decoded);
    case "drawbridge-ipam":
      return node.adding().serveOthers(node, decoded);
    case "loopback":
      return node.loopback().serveLoopback(node, decoded);
  }
}

function connectPods(node: PluginMachine, decoded: DecodedCall): string {
  switch (decoded.verb) {
    case "ADD":
      return addPod(node, decoded);
    case "CHECK":
      checkPod(node, decoded);
      return "";
    case "DEL":
      deletePod(node, decoded);
      return "";
    case "GC":
      collectPods(node, decoded);
      return "";
    case "STATUS":
      answerStatus(node, decoded);
      return "";
  }
}

function addPod(node: PluginMachine, { call, attachment, input }: CallOf<"ADD">): string {
  if (input.detachOnly === true) throw onlyDetaches(CniErrorCode.TRY_AGAIN_LATER);
  const { add, bridgeConfiguration, noteOutcome, resultObject } = node.adding();
  const { cniVersion: version, prevResult } = input;
  const foreign = foreignIpam(call, input);
  const configuration = bridgeConfiguration(input, attachment.arguments, foreign !== undefined);
  const previous = prevResult && node.rare().previousResult(prevResult, call.stdin);
  return withPod(node, call, attachment, (namespaces) => {
    waitForOtherCalls(node, namespaces.namespace);
    detachEnded(node, configuration, detachOf(node, call, input, namespaces.home));
    const giver = foreign && node.rare().addressGiver(node, foreign, input, configuration, attachment);
    const attach = (): AddResult => add(node, configuration, attachment, namespaces, giver);
    const result = noteOutcome(node, configuration, attach, giver !== undefined);
    return formatJson(
      previous === undefined ? resultObject(result, version) : node.rare().chainedResult(result, version, previous),
    );
  });
}

/**
 * Removes the remains of sandboxes that ended without DEL a quarter of an hour ago: addresses, neighbours, rules and
 * records, as their DEL would. ADD does this first, since runtimes need not call GC, and since only the plugin can
 * release addresses. A sandbox that has a link by now is not removed. After a failure an ADD tries again a quarter of an
 * hour later.
 *
 * @param detach the DEL of an attachment whose namespace is gone
 */
function detachEnded(
  node: PluginMachine,
  { runDir, name }: Pick<DetachConfiguration, "runDir" | "name">,
  detach: (owner: Owner) => void,
): void {
  try {
    const marks = endedAttachments(runDir, name, node.bootId(), node.files);
    if (marks.length > 0) node.rare().detachMarked(node, { runDir, name }, marks, detach);
  } catch (error) {
    if (!(error instanceof DrawbridgeError) && !(error instanceof CniError)) throw error;
  }
}

/** Returns the error of a node from which Drawbridge was uninstalled: its pods can only be deleted (UNINSTALL-03). */
function onlyDetaches(code: CniErrorCode): CniError {
  return new CniError(
    code,
    "Drawbridge was uninstalled from this node, where pods can only be deleted; expected the network add-on that comes next: install it",
    "the network configuration says detachOnly",
  );
}

function checkPod(node: PluginMachine, { call, attachment, input }: CallOf<"CHECK">): void {
  const foreign = foreignIpam(call, input);
  const configuration = node.adding().bridgeConfiguration(input, attachment.arguments, foreign !== undefined);
  withPod(node, call, attachment, (namespaces) => {
    if (foreign !== undefined) node.rare().runIpam(node, foreign, "CHECK");
    node.rare().check(node, configuration, attachment, input.prevResult, namespaces);
  });
}

function deletePod(node: PluginMachine, { call, attachment, input }: CallOf<"DEL">): void {
  const configuration = detachConfiguration(input);
  withNamespaces(node, call, attachment, (namespaces) => {
    if (namespaces.namespace !== undefined) waitForOtherCalls(node, namespaces.namespace);
    removePod(node, { call, attachment, input }, configuration, namespaces);
  });
}

function collectPods(node: PluginMachine, { call, input, isValid }: CallOf<"GC">): void {
  const { gc, passOn } = node.rare();
  const forward = (): void => void passOn(node, call, input, "GC");
  if (isValid === undefined) return forward();
  const configuration = detachConfiguration(input);
  withNamespaces(node, call, NOBODY, ({ home }) => {
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
    const detach = { call: callFor(call, owner, record), attachment, input };
    removePod(node, detach, configuration, { home, namespace: undefined });
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
 * Carries out our DEL and then the DEL of an external IPAM plugin: addresses must not become free before nothing
 * answers to them. When that plugin fails, everything of ours has been removed, and the next DEL calls it again.
 */
function removePod(
  node: PluginMachine,
  { call, attachment, input }: Omit<CallOf<"DEL">, "verb">,
  configuration: DetachConfiguration,
  namespaces: NamespacesLeft,
): void {
  const taker = node.deleting().addressTaker(node, call, input, configuration, attachment);
  try {
    const { ipam, runDir } = configuration;
    const dataDir = taker === undefined ? ipam.dataDir : delegatedDirectory(runDir);
    node.deleting().del(node, { ...configuration, ipam: { dataDir } }, attachment, namespaces);
    taker?.take();
  } finally {
    taker?.end();
  }
}

/**
 * Answers STATUS. An external IPAM plugin is asked first, and its error becomes ours.
 *
 * @throws CniError 50, also if the configuration only detaches, and 51; 1, 6 and 7 for the configuration
 */
function answerStatus(node: PluginMachine, { call, input }: CallOf<"STATUS">): void {
  if (input.detachOnly === true) throw onlyDetaches(CniErrorCode.NOT_AVAILABLE);
  const { passOn, status } = node.rare();
  const isForeign = passOn(node, call, input, "STATUS");
  status(node, input, detachConfiguration(input), isForeign);
}
