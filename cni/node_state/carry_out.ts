import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import { putPort } from "../../kernel/bpf/port_table.ts";
import { withDirectoryLock } from "../../kernel/file_lock.ts";
import { type Cidr, cidrFamily, networkAddress } from "../../kernel/ip/cidr.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { setPortEntry } from "../../kernel/route/forwarding_entry.ts";
import { newAddress } from "../../kernel/route/interface_address.ts";
import { changeLink, createBridge, FORWARDING } from "../../kernel/route/link.ts";
import { setNeighbour } from "../../kernel/route/neighbour.ts";
import { KERNEL_PROTOCOL, linkRoute, newRoute, type RouteSpec } from "../../kernel/route/route.ts";
import type { BpfCalls } from "../../kernel/syscall/bpf_calls.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { Sysctl } from "../../kernel/sysctl.ts";
import { addClassifiers } from "../../kernel/traffic_control/queueing_discipline.ts";
import { endReceivingAtBridge, receiveAtBridge, redirectReceived } from "../../kernel/traffic_control/redirect.ts";
import { PORT_FLAGS } from "../wiring/wiring.ts";
import type { DesiredPort } from "./desired.ts";
import type { Step } from "./observed.ts";

/** The parts of the machine that the steps use. */
export interface StepMachine {
  readonly syscalls: Syscalls & FileReadCalls & BpfCalls;
  /** For links and routes. */
  readonly socket: NetlinkSocket;
  /** It should remember the original settings (rememberingSysctl of attachment/original_settings.ts). */
  readonly sysctl: Sysctl;
  /** The directory whose lock protects writes to the tables of ports. */
  readonly runDir: string;
}

/** IP6_RT_PRIO_ADDRCONF of include/net/ip6_route.h. */
const IPV6_SUBNET_PRIORITY = 256;

/** A request, and whether the kernel may refuse it without an error. */
interface Attempt {
  readonly request: Request;
  readonly mayFail: boolean;
}

/**
 * Carries out steps in order, each regardless of the outcome of those before.
 *
 * @returns the refusals
 * @throws DrawbridgeError when the kernel does not answer
 */
export function carryOutSteps(machine: StepMachine, steps: readonly Step[]): readonly DrawbridgeError[] {
  const refused: DrawbridgeError[] = [];
  let attempts: Attempt[] = [];
  const send = (): void => {
    const replies = machine.socket.batch(attempts.map(({ request }) => request));
    for (const [position, { error }] of replies.entries()) {
      if (error !== undefined && attempts[position]?.mayFail !== true) refused.push(error);
    }
    attempts = [];
  };
  for (const step of steps) {
    if (step.type === "write-setting") {
      send();
      attempt(
        () => machine.sysctl.write(step.key, step.value),
        (error) => void refused.push(error),
      );
    } else attempts.push(...attemptsOf(step));
    if (step.type === "lead-around") {
      send();
      putInTable(machine, step);
    }
  }
  send();
  return refused;
}

function attemptsOf(step: Exclude<Step, { readonly type: "write-setting" }>): readonly Attempt[] {
  switch (step.type) {
    case "create-bridge":
      // Another program may have been faster; the next pass reads its bridge.
      return [{ request: createBridge(step), mayFail: true }];
    case "change-bridge":
      return [demanded(changeLink({ index: step.index }, step.to))];
    case "add-address":
      return [demanded(newAddress(step.index, step.address))];
    case "add-subnet-route":
      return [demanded(newRoute(subnetRoute(step.address, step.index)))];
    case "add-host-route":
      return [demanded(newRoute(linkRoute(step.destination, step.index)))];
    case "change-port":
      return portChange(step);
    case "delay-sending":
      return delayedSending(step);
    case "remove-filters":
      return endReceivingAtBridge(step.index).map((request) => ({ request, mayFail: true }));
    case "lead-around":
      return aroundBridge(step);
    case "set-neighbour":
      return [demanded(setNeighbour(step.index, step.address, step.mac))];
  }
}

function demanded(request: Request): Attempt {
  return { request, mayFail: false };
}

/** Returns the route that the kernel makes with an address and does not restore when another program removes it. */
function subnetRoute(address: Cidr, index: number): RouteSpec {
  return {
    ...linkRoute({ address: networkAddress(address), prefixLength: address.prefixLength }, index),
    protocol: KERNEL_PROTOCOL,
    ...(cidrFamily(address) === 4 ? { source: address.address } : { priority: IPV6_SUBNET_PRIORITY }),
  };
}

/** Returns the requests that make a link a port; it can have a port's flags only from then on. */
function portChange({
  index,
  bridge,
  port: { hairpin, mac, mtu },
}: {
  readonly index: number;
  readonly bridge: number;
  readonly port: DesiredPort;
}): readonly Attempt[] {
  const link = { index };
  return [
    // Up comes last: a link that is down passes no packet to the bridge before its port has its flags.
    demanded(changeLink(link, { master: bridge, mac, mtu })),
    demanded(changeLink(link, { bridgePort: { hairpin, ...PORT_FLAGS } })),
    { request: changeLink(link, { linkLocalAddress: false }), mayFail: true },
    demanded(changeLink(link, { up: true })),
    // A link that was down may have no carrier yet; the kernel lets it forward when it has.
    { request: changeLink(link, { bridgePort: { hairpin, state: FORWARDING } }), mayFail: true },
  ];
}

/**
 * Returns the requests for a pod's delay device and the filter that leads to it. The device itself, with its rate, is
 * made only by an ADD: for a missing one, the refusal of the first request is reported.
 */
function delayedSending({
  index,
  device,
  hasFilter,
  port,
}: Extract<Step, { type: "delay-sending" }>): readonly Attempt[] {
  const up = demanded(changeLink({ name: port.delay ?? "" }, { up: true }));
  if (device === undefined || hasFilter) return [up];
  return [up, { request: addClassifiers(index), mayFail: true }, demanded(redirectReceived(index, device))];
}

interface Around {
  readonly index: number;
  readonly bridge: number;
  readonly port: DesiredPort;
  readonly hasFilters: boolean;
}

/**
 * Returns the requests of bypassBridge (cni/wiring/bypass.ts): if the kernel lacks the means, packets take the
 * bridge.
 */
function aroundBridge({ index, bridge, port, hasFilters }: Around): readonly Attempt[] {
  const { podMac, isMacRequested, addresses, mac } = port;
  const filters = hasFilters
    ? [
        ...endReceivingAtBridge(index),
        addClassifiers(index),
        ...addresses.map((address) => receiveAtBridge(index, bridge, { source: podMac, destination: mac, address })),
      ]
    : [];
  const requests = [setPortEntry(index, podMac, isMacRequested ? "refuse" : "move"), ...filters];
  return requests.map((request) => ({ request, mayFail: true }));
}

/** Puts the pod into the table of ports. Without its place there, the bridge itself looks up the port. */
function putInTable(machine: StepMachine, { index, bridge, port }: Around): void {
  if (port.isMacRequested) return;
  const put = (): boolean => putPort(machine, bridge, port.podMac, index);
  // It is tried once: a lock is held for well under a millisecond, and the table is only a cache.
  attempt(
    () => withDirectoryLock(machine.syscalls, machine.runDir, put, 0),
    () => false,
  );
}
