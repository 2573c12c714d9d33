import {
  closeNamespace,
  currentNamespace,
  isSameNamespace,
  type NetworkNamespace,
  openNamespace,
} from "../kernel/network_namespace.ts";
import { SyscallError } from "../kernel/syscall/syscalls.ts";
import type { PluginInput } from "./delegation/ipam_choice.ts";
import type { Attachment } from "./environment.ts";
import { CniError, CniErrorCode } from "./error.ts";
import type { PluginMachine } from "./host.ts";

/** The node's namespace, which the calling thread is in, and the pod's. */
export interface Namespaces {
  readonly home: NetworkNamespace;
  readonly namespace: NetworkNamespace;
}

/** As {@link Namespaces}, for a pod whose namespace may be gone. */
export type NamespacesLeft = Omit<Namespaces, "namespace"> & { readonly namespace: NetworkNamespace | undefined };

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

/** Runs an action like {@link withNamespaces}. @throws CniError 8 also when the pod's namespace is gone */
export function withPod<T>(
  node: PluginMachine,
  call: PluginInput,
  attachment: Attachment,
  action: (namespaces: Namespaces) => T,
): T {
  return withNamespaces(node, call, attachment, ({ home, namespace }) => {
    if (namespace !== undefined) return action({ home, namespace });
    throw new CniError(
      CniErrorCode.INVALID_NETNS,
      `CNI_NETNS: ${JSON.stringify(attachment.netns)} does not exist or is not a network namespace; expected one such as /run/netns/NAME`,
    );
  });
}

/**
 * Runs an action with the node's namespace and the pod's, which is undefined when it is gone.
 *
 * @throws CniError 8 from {@link openPodNamespace}, and whatever the action throws
 */
export function withNamespaces<T>(
  node: PluginMachine,
  { environment }: PluginInput,
  { netns }: Pick<Attachment, "netns">,
  action: (namespaces: NamespacesLeft) => T,
): T {
  const home = currentNamespace(node.syscalls);
  try {
    const override = ["1", "true"].includes((environment["CNI_NETNS_OVERRIDE"] ?? "").toLowerCase());
    const namespace = netns === undefined ? undefined : openPodNamespace(node, netns, home, override);
    try {
      return action({ home, namespace });
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
 * @param override whether the runtime allows the node's own
 * @returns undefined when the path does not exist or leads to something else, such as the file a namespace was mounted
 *   on
 * @throws CniError 8
 */
function openPodNamespace(
  node: PluginMachine,
  path: string,
  home: NetworkNamespace,
  override: boolean,
): NetworkNamespace | undefined {
  const namespace = openIfPresent(node, path);
  if (namespace === undefined) return undefined;
  // All namespaces are files of one file system (nsfs), so a file on another device is not a namespace.
  if (namespace.device !== home.device) {
    closeNamespace(node.syscalls, namespace);
    return undefined;
  }
  if (isSameNamespace(home, namespace) && !override) {
    closeNamespace(node.syscalls, namespace);
    throw new CniError(
      CniErrorCode.INVALID_NETNS,
      `CNI_NETNS: ${JSON.stringify(path)}: plugin's netns and netns from CNI_NETNS should not be the same`,
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
