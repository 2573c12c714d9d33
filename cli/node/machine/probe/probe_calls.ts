import type { MachineCalls } from "../../../../kernel/syscall/machine_calls.ts";
import type { NamespaceCalls } from "../../../../kernel/syscall/namespace_calls.ts";
import type { PollCalls } from "../../../../kernel/syscall/poll_calls.ts";

/** The calls of a probe, which makes namespaces and receives notifications. */
export type ProbeCalls = MachineCalls & NamespaceCalls & Pick<PollCalls, "attachFilter">;
