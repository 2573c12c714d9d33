import type { Request } from "../../kernel/netlink/message.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";

/**
 * A request, and the errno that the kernel may answer because the desired state exists already or is impossible here.
 */
export interface Step {
  readonly request: Request;
  readonly tolerates?: "EEXIST" | "EAFNOSUPPORT";
}

/** Carries out steps in order. @throws NetlinkError the first refusal that its step does not tolerate */
export function carryOut(socket: NetlinkSocket, steps: readonly Step[]): void {
  const replies = socket.batch(steps.map(({ request }) => request));
  let position = 0;
  for (const { error } of replies) {
    if (error !== undefined && error.errnoName !== steps[position]?.tolerates) throw error;
    position++;
  }
}
