import type { BpfCalls } from "./bpf_calls.ts";
import type { FileCalls } from "./file_calls.ts";
import type { Syscalls } from "./syscalls.ts";

/** All that changing or looking at a node's network takes: of the plugin, and of the command line's commands for nodes. */
export type MachineCalls = Syscalls & FileCalls & BpfCalls;
