import {
  closeNamespace,
  currentNamespace,
  isSameNamespace,
  type NetworkNamespace,
  openNamespace,
} from "../kernel/network_namespace.ts";
import { SyscallError } from "../kernel/syscall/syscalls.ts";
import type { Attachment, Environment } from "./environment.ts";
import { CniError, CniErrorCode } from "./error.ts";
import type { PluginMachine } from "./host.ts";

/**
 * Runs an action with the node's namespace and the pod's, which is undefined when it is gone.
 *
 * @throws CniError 8 from {@link openPodNamespace}, and whatever the action throws
 */
export function withNamespaces<T>(
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
export function missingNamespace({ netns }: Attachment): CniError {
  return new CniError(
    CniErrorCode.INVALID_NETNS,
    `CNI_NETNS: ${JSON.stringify(netns)} does not exist or is not a network namespace; expected one such as /run/netns/NAME`,
  );
}
