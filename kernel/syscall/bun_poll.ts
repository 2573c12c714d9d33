import type { Signature } from "./bun_ffi.ts";
import { openLibc } from "./bun_ffi.ts";
import type { PollCalls } from "./poll_calls.ts";
import { POLLFD_SIZE } from "./poll_calls.ts";

const signatures = {
  poll: { args: ["ptr", "u64", "i32"], returns: "i32" },
  eventfd: { args: ["u32", "i32"], returns: "i32" },
} as const satisfies Readonly<Record<string, Signature>>;

/**
 * The calls of waiting through Bun's FFI, apart from the plugin's, which declares each call it makes at every start.
 *
 * @throws Error when libc cannot be opened, or this Bun is not the pinned one
 */
export function bunPollCalls(): PollCalls {
  const { calls: c, outcome } = openLibc(signatures);
  return {
    poll: (entries, milliseconds) => outcome(c.poll(entries, entries.length / POLLFD_SIZE, milliseconds)),
    eventfd: (initial, flags) => outcome(c.eventfd(initial, flags)),
  };
}
