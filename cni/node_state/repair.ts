import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { StepMachine } from "./carry_out.ts";
import { type DesiredBridge, desiredBridges } from "./desired.ts";
import { repairSteps, stepText } from "./difference.ts";
import { netlinkNodeState, observeBridge } from "./netlink_kernel.ts";
import type { Scope } from "./observed.ts";
import { problemsOf } from "./problems.ts";
import { settle } from "./settle.ts";

/** The scope of an ADD: the bridge, and the routes to the pod; about ten requests. */
function scopeOf({ addresses }: AttachmentRecord): Scope {
  return { ports: new Set(), ways: new Set(addresses.map(({ address }) => address)), hasFilters: false };
}

/**
 * Repairs a bridge and the routes to a pod.
 *
 * @throws DrawbridgeError ERR_FOREIGN_OBJECT if the node still does not send packets for the pod to its bridge, with
 *   the way out
 */
export function repairNodeState(machine: StepMachine, desired: DesiredBridge, record: AttachmentRecord): void {
  const settled = settle(netlinkNodeState(machine), desired, scopeOf(record));
  const problems = problemsOf(desired, settled).filter(({ isCut }) => isCut);
  if (problems.length === 0) return;
  throw new DrawbridgeError("ERR_FOREIGN_OBJECT", problems.map(({ text }) => text).join("; "));
}

/** Describes how the bridge's settings and the routes to a pod differ from what its ADD made; changes nothing. */
export function nodeStateDifferences(
  machine: Pick<StepMachine, "socket" | "sysctl">,
  record: AttachmentRecord,
): readonly string[] {
  return desiredBridges([record]).flatMap((desired) => {
    const observed = observeBridge(machine, desired, scopeOf(record));
    // Links and addresses are compared with the result of the whole chain (../check/check.ts).
    const settings = repairSteps(desired, observed).filter(({ part }) => part === "setting");
    const isWhole =
      observed.link?.up === true && !repairSteps(desired, observed).some(({ part }) => part === "address");
    const ways = isWhole ? problemsOf(desired, { remaining: [], refused: [], observed }) : [];
    return [...settings.map((step) => `expected to ${stepText(step)}`), ...ways.map(({ text }) => text)];
  });
}
