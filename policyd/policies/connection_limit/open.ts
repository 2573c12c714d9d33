import { localAddresses } from "../../../cni/node_rules/stale_flows.ts";
import { EVERY_FLOW } from "../../../kernel/conntrack/flow_count.ts";
import { deleteFlows } from "../../../kernel/conntrack/flow_deletion.ts";
import { ConntrackSockets, type FlowCalls } from "../../../kernel/conntrack/sockets.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { readTextFile } from "../../../kernel/file.ts";
import type { AttachmentRegistry } from "../../attachments/registry.ts";
import type { PolicyEnforcement } from "../policy_enforcement.ts";
import { ConnectionLimit, type ConnectionLimitParts, type ConnectionTable } from "./connection_limit.ts";
import { podsOf } from "./fair_share.ts";

const SYSCTLS = "/proc/sys/net/netfilter";

/** The parts that a limit needs. */
export interface ConnectionLimitMachine extends Pick<ConnectionLimitParts, "ruleset" | "clock" | "logger" | "events"> {
  readonly syscalls: FlowCalls;
  readonly attachments: Pick<AttachmentRegistry, "values">;
}

/** Opens a limit that begins when the policies are known. @param limit 0 for none; undefined for the default */
export function openConnectionLimit(
  policies: Pick<PolicyEnforcement, "follow">,
  limit: number | undefined,
  { syscalls, attachments, ...parts }: ConnectionLimitMachine,
): void {
  if (limit === 0) return;
  const nodeAddresses = () => localAddresses(syscalls);
  const table = kernelConnectionTable(syscalls);
  policies.follow(
    new ConnectionLimit({ ...parts, limit, pods: () => podsOf(attachments.values()), nodeAddresses, table }),
  );
}

/** Returns the table of this thread's network namespace; its capacity is the machine's. */
function kernelConnectionTable(syscalls: FlowCalls): ConnectionTable {
  const read = (name: string): number => {
    const text = readTextFile(syscalls, `${SYSCTLS}/${name}`, 32);
    if (text !== undefined) return Number(text);
    throw new DrawbridgeError("ERR_UNAVAILABLE", `${SYSCTLS}/${name}: missing; is nf_conntrack loaded?`);
  };
  const sockets = new ConntrackSockets(syscalls);
  return {
    size: () => read("nf_conntrack_count"),
    capacity: () => read("nf_conntrack_max"),
    sweep: async (isMeant) => deleteFlows(sockets, EVERY_FLOW, isMeant),
  };
}
