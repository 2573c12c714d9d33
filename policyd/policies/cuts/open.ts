import { localAddresses } from "../../../cni/node_rules/stale_flows.ts";
import { relabelFlows } from "../../../kernel/conntrack/relabelling.ts";
import { ConntrackSockets, type FlowCalls } from "../../../kernel/conntrack/sockets.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import type { PolicyOptions } from "../compile/options.ts";
import { POLICY_TABLE } from "../compile/policy_table.ts";
import { Cuts, type CutsParts, type PolicyFlows } from "./cuts.ts";
import { kernelOpening, type KernelOpeningParts } from "./startup_rules.ts";

/** The parts that cuts need besides the policies. */
export interface CutsMachine extends Pick<CutsParts, "evaluatorOf" | "isSettled" | "clock" | "logger"> {
  readonly syscalls: FlowCalls;
  readonly ruleset: Pick<Ruleset, "claim" | "commitBeside" | "tableNamed">;
  /** Reads the kernel's tables. */
  readonly kernel: KernelOpeningParts["kernel"];
  readonly options: Pick<PolicyOptions, "bridge" | "policyReset">;
}

/** Returns cuts for the network namespace of this thread; nothing happens yet. */
export function openCuts(machine: CutsMachine): Cuts {
  const { syscalls, kernel, options, evaluatorOf, isSettled, ruleset, clock, logger } = machine;
  return new Cuts({
    flows: kernelFlows(syscalls),
    evaluatorOf,
    isSettled,
    ruleset,
    opening: kernelOpening({
      kernel,
      commit: (changes) => ruleset.commitBeside(changes),
      policyTable: { ...POLICY_TABLE, sets: ruleset.tableNamed(POLICY_TABLE.family, POLICY_TABLE.name)?.sets ?? [] },
      bridge: options.bridge,
    }),
    clock,
    logger,
    policyReset: options.policyReset,
  });
}

function kernelFlows(syscalls: FlowCalls): PolicyFlows {
  const sockets = new ConntrackSockets(syscalls);
  return {
    relabel: (asked, relabelling) => relabelFlows(sockets, asked, relabelling),
    nodeAddresses: () => localAddresses(syscalls),
  };
}
