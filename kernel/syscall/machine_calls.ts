import type { BpfCalls } from "./bpf_calls.ts";
import type { FileCalls } from "./file_calls.ts";
import type { Syscalls } from "./syscalls.ts";

/** All calls to read or change a node's network, for the plugin and the command line's commands for nodes. */
export type MachineCalls = Syscalls & FileCalls & BpfCalls;
