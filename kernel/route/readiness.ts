import { DrawbridgeError } from "../error.ts";
import { type Address, formatAddress } from "../ip/address.ts";
import type { NetlinkSocket } from "../netlink/socket.ts";
import { realWaiting, type Waiting } from "../waiting.ts";
import type { LinkReference } from "./link.ts";
import { isLocalRoute, lookUpRoute } from "./route.ts";
import { isOperational } from "./socket.ts";

const TIMEOUT_MILLISECONDS = 2000;
const FIRST_PAUSE_MILLISECONDS = 0.2;
/** The longest pause. Each request takes the kernel's only lock for links, which the awaited ADDs need, too. */
const LONGEST_PAUSE_MILLISECONDS = 5;

/**
 * Waits until a link carries packets.
 *
 * When a link gets its carrier after it was set up, a work item of the kernel (linkwatch) attaches its queue. Until
 * then the link drops everything that is sent.
 *
 * @throws DrawbridgeError ERR_NETLINK when it does not within two seconds
 */
export function waitUntilUp(socket: NetlinkSocket, link: LinkReference, waiting?: Waiting): void {
  const name = "name" in link ? link.name : link.index;
  waitUntil(
    () => isOperational(socket, link),
    () => `link ${name} has no carrier: is its other end up?`,
    waiting,
  );
}

/**
 * Waits until the namespace receives packets for an address of its own.
 *
 * For IPv6 a work item makes the local route, even for an address without duplicate detection (addrconf_dad_work), and
 * earlier packets are dropped. No flag of the address shows this, but a route lookup does.
 *
 * @throws DrawbridgeError ERR_NETLINK when it does not within two seconds
 */
export function waitUntilLocal(socket: NetlinkSocket, address: Address, waiting?: Waiting): void {
  const isLocal = (): boolean => {
    const [reply] = socket.batch([lookUpRoute(address)]);
    const answer = reply?.messages[0];
    return answer !== undefined && isLocalRoute(answer);
  };
  waitUntil(isLocal, () => `address ${formatAddress(address)} has no local route`, waiting);
}

function waitUntil(holds: () => boolean, otherwise: () => string, waiting: Waiting = realWaiting): void {
  const deadline = waiting.now() + TIMEOUT_MILLISECONDS;
  for (let pause = FIRST_PAUSE_MILLISECONDS; !holds(); pause = Math.min(pause * 2, LONGEST_PAUSE_MILLISECONDS)) {
    if (waiting.now() >= deadline) {
      throw new DrawbridgeError("ERR_NETLINK", `${otherwise()} after ${TIMEOUT_MILLISECONDS} ms; try again`);
    }
    waiting.pause(pause);
  }
}
