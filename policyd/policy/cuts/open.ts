import { localAddresses } from "../../../cni/stale_flows.ts";
import { relabelFlows } from "../../../kernel/conntrack/relabelling.ts";
import { openConntrackSocket } from "../../../kernel/conntrack/table.ts";
import type { FileReadCalls } from "../../../kernel/syscall/file_calls.ts";
import { readTextFile } from "../../../kernel/file.ts";
import type { NetlinkSocket } from "../../../kernel/netlink/socket.ts";
import type { Table } from "../../../kernel/nftables/object.ts";
import type { Ruleset } from "../../dataplane/ruleset.ts";
import type { BackgroundCalls } from "../../../kernel/syscall/background_calls.ts";
import type { Syscalls } from "../../../kernel/syscall/syscalls.ts";
import type { PolicyOptions } from "../compile/options.ts";
import type { CutsParts, PolicyFlows } from "./cuts.ts";
import { Cuts } from "./cuts.ts";
import type { KernelOpeningParts } from "./opening.ts";
import { kernelOpening } from "./opening.ts";
import { EVERYTHING } from "./suspects.ts";

type FlowCalls = Syscalls & BackgroundCalls & FileReadCalls;

/** What cuts need of the machine beside the policies. */
export interface CutsMachine extends Pick<CutsParts, "judgeOf" | "clock" | "logger"> {
  readonly syscalls: FlowCalls;
  readonly ruleset: Pick<Ruleset, "claim" | "commitBeside">;
  /** Reads the kernel's tables. */
  readonly kernel: KernelOpeningParts["kernel"];
  readonly policyTable: Table;
  readonly options: Pick<PolicyOptions, "bridge" | "policyReset">;
}

/** Cuts in the network namespace of this thread; nothing happens yet. */
export function openCuts(machine: CutsMachine): Cuts {
  const { syscalls, kernel, policyTable, options, judgeOf, ruleset, clock, logger } = machine;
  return new Cuts({
    flows: kernelFlows(syscalls),
    judgeOf,
    ruleset,
    opening: kernelOpening({
      kernel,
      commit: (changes) => ruleset.commitBeside(changes),
      policyTable,
      bridge: options.bridge,
    }),
    clock,
    logger,
    policyReset: options.policyReset,
  });
}

/** Of this namespace. */
const FLOW_COUNT = "/proc/sys/net/netfilter/nf_conntrack_count";
/** Each list takes the kernel through all buckets of the machine's table; so many flows more are looked at in less time. */
const FEW_FLOWS = 2000;

function kernelFlows(syscalls: FlowCalls): PolicyFlows {
  const areFew = (): boolean => Number(readTextFile(syscalls, FLOW_COUNT, 32) ?? FEW_FLOWS) < FEW_FLOWS;
  return {
    relabel: (asked, relabelling) => {
      const open = (): NetlinkSocket => openConntrackSocket(syscalls);
      return relabelFlows(open, areFew() ? EVERYTHING : asked, relabelling, syscalls);
    },
    nodeAddresses: () => localAddresses(syscalls),
  };
}
