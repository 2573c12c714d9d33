import { askPolicyd } from "../../../attachment/policyd_client.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";

const MILLISECONDS = 10_000;
/** A bound: a part usually holds several policies, and no cluster has enough of them for more parts. */
const MOST_PARTS = 100_000;

/**
 * Asks the daemon for the policies in force, as lines of JSON.
 *
 * @throws DrawbridgeError ERR_UNAVAILABLE, ERR_PROTOCOL
 */
export function readPolicies(syscalls: MachineCalls, socket: string): string {
  let text = "";
  let after: string | undefined;
  for (let part = 0; part < MOST_PARTS; part++) {
    const request = after === undefined ? ({ type: "policies" } as const) : ({ type: "policies", after } as const);
    const reply = askPolicyd(syscalls, socket, request, MILLISECONDS);
    if (reply.type !== "policies") throw new DrawbridgeError("ERR_PROTOCOL", `policyd answered "${reply.type}"`);
    text += reply.lines;
    if (reply.next === undefined) return text;
    after = reply.next;
  }
  throw new DrawbridgeError("ERR_PROTOCOL", `policyd has more than ${MOST_PARTS} parts of policies`);
}
