import type { NetworkNamespace } from "../kernel/network_namespace.ts";
import type { PluginMachine } from "./host.ts";

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
