import { runVerb } from "../../../cni/plugin.ts";
import { ipamInput } from "../cni/cni.ts";
import { type FakeKernel, type Fault, POD_INTERFACE } from "./fake_kernel.ts";

/**
 * Calls the plugin for container c1 as a new process on a fake kernel, its files below `directory`.
 *
 * @param changes replaces single keys of the configuration
 */
export function callOn(
  kernel: Pick<FakeKernel, "node" | "restart">,
  directory: string,
  verb: "ADD" | "DEL",
  fault?: Fault,
  changes: Readonly<Record<string, unknown>> = {},
): string {
  kernel.restart(fault);
  const configuration = { ...ipamInput({ dataDir: `${directory}/networks` }), runDir: `${directory}/run`, ...changes };
  const environment = { CNI_CONTAINERID: "c1", CNI_IFNAME: POD_INTERFACE, CNI_NETNS: "/proc/self/ns/mnt" };
  return runVerb(kernel.node, "drawbridge", verb, {
    self: "drawbridge",
    environment,
    stdin: JSON.stringify(configuration),
  });
}
