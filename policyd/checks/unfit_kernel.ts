import { DrawbridgeError } from "../../kernel/error.ts";
import type { MachineFacts } from "../problems/check.ts";
import { diagnose } from "../problems/diagnose.ts";
import { remarkText } from "../problems/problem.ts";
import { kernelFeatures, kernelVersion } from "./kernel.ts";

/**
 * Refuses a kernel that cannot have the daemon's tables, in the doctor's words. Without links of some kind, which a node
 * may do without, the daemon runs and reports it.
 *
 * @throws DrawbridgeError ERR_NETLINK with all that the kernel lacks, and the way out
 */
export function refuseUnfitKernel(kernel: Pick<MachineFacts, "release" | "trials">): void {
  const facts = { ...kernel, linkKinds: { value: [] }, hasPacketLog: true };
  const { findings } = diagnose(facts, [kernelVersion, kernelFeatures]);
  if (findings.length > 0) throw new DrawbridgeError("ERR_NETLINK", findings.map(remarkText).join("; "));
}
