import { randomInt } from "node:crypto";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import {
  closeNamespace,
  currentNamespace,
  type NetworkNamespace,
  insideNamespace,
} from "../../../../kernel/network_namespace.ts";
import type { NodeFacts } from "../../doctor/facts.ts";
import { STOPPING } from "../../../input/programs/programs.ts";
import { isTooBig, readCounters, risen } from "../../doctor/probe/counters.ts";
import { probeFlows, type ProbeFlow } from "../../doctor/probe/flow.ts";
import { type Attempt, type Loss, lossOf, type Probed } from "../../doctor/probe/loss.ts";
import { NET, readOptional, unseenFor } from "../../../../policyd/checks/read_machine.ts";
import type { Seen } from "../../../../policyd/problems/check.ts";
import { processesByContainer } from "../read_audit.ts";
import { type ProbePod, ProbePods } from "./probe_pods.ts";
import { type ProbeCalls, Tracer } from "./tracer.ts";
import { isReached, openProbeSocket, socketAddressOf } from "../../../../kernel/closed_port_probe.ts";
import { type Address, familyOf } from "../../../../kernel/ip/address.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import type { Syscalls } from "../../../../kernel/syscall/syscalls.ts";

/** The source ports of a probe: below those that the kernel gives out, and more than there are tries. */
const PORTS = 128;
const [FIRST_PORT, LAST_PORT] = [20_000, 32_000];
/** A packet that vanishes once is sent again, and its answer may take longer. */
const MILLISECONDS = [250, 600] as const;
/** For an answer that is not needed. */
const SHORT_MILLISECONDS = 50;
/** Until the last notifications about a packet have come. */
const PAUSE_MILLISECONDS = 20;

/**
 * Attaches two pods and sends packets between them and everything that pods need. Whatever happens, the pods are deleted
 * and the tables that trace packets are removed; a signal is delivered again afterwards.
 *
 * @throws DrawbridgeError ERR_UNAVAILABLE without our configuration; NetlinkError, also while another probe runs
 */
export async function runProbe(calls: ProbeCalls, facts: NodeFacts): Promise<Probed> {
  // In a container the plugin would find another address store, and give pods addresses that others have.
  processesByContainer();
  const pods = new ProbePods(calls, facts.place);
  const home = currentNamespace(calls);
  let stopped: NodeJS.Signals | undefined;
  const stop = (signal: NodeJS.Signals): void => void (stopped = signal);
  for (const signal of STOPPING) process.on(signal, stop);
  try {
    const ports = freePorts(facts);
    const tracer = new Tracer(calls, ports);
    try {
      const attached = await attemptLater(() => pods.attach(home));
      if ("unseen" in attached) return { lost: [], failure: attached.unseen };
      const [first, second] = attached.value;
      const probe = new Probe(calls, { home, first, second }, tracer, ports.first);
      const flows = probeFlows(facts, [first.addresses, second.addresses], tracer.services());
      const lost: { readonly flow: ProbeFlow; readonly loss: Loss }[] = [];
      for (const flow of flows) {
        if (stopped !== undefined) break;
        const loss = await probe.lossOf(flow);
        if (loss !== undefined) lost.push({ flow, loss });
      }
      return { lost, failure: undefined };
    } finally {
      try {
        await pods.detach();
      } finally {
        tracer.close();
      }
    }
  } finally {
    closeNamespace(calls, home);
    for (const signal of STOPPING) process.off(signal, stop);
    if (stopped !== undefined) process.kill(process.pid, stopped);
  }
}

/** Returns the result of a read that takes time, or why the machine does not permit it. A bug is thrown. */
export async function attemptLater<T>(see: () => Promise<T>): Promise<Seen<T>> {
  try {
    return { value: await see() };
  } catch (error) {
    return unseenFor(error);
  }
}

/** Returns consecutive ports on which no socket of the node listens. */
function freePorts({ tcpPorts, udpPorts }: NodeFacts): { readonly first: number; readonly last: number } {
  for (let left = 100; left > 0; left--) {
    const first = randomInt(FIRST_PORT, LAST_PORT);
    const last = first + PORTS - 1;
    if (![...tcpPorts, ...udpPorts].some((port) => first <= port && port <= last)) return { first, last };
  }
  throw new DrawbridgeError("ERR_UNAVAILABLE", `no ${PORTS} free ports from ${FIRST_PORT} to ${LAST_PORT}`);
}

/** Tries flows one after another. */
class Probe {
  readonly #calls: ProbeCalls;
  readonly #places: { readonly home: NetworkNamespace; readonly first: ProbePod; readonly second: ProbePod };
  readonly #tracer: Tracer;
  #nextPort: number;

  constructor(
    calls: ProbeCalls,
    places: { readonly home: NetworkNamespace; readonly first: ProbePod; readonly second: ProbePod },
    tracer: Tracer,
    firstPort: number,
  ) {
    this.#calls = calls;
    this.#places = places;
    this.#tracer = tracer;
    this.#nextPort = firstPort;
  }

  /** Tries a flow, again where the trace shows no rule that drops it. @returns where its last packet was lost */
  async lossOf(flow: ProbeFlow): Promise<Loss | undefined> {
    let loss: Loss | undefined;
    for (const milliseconds of MILLISECONDS) {
      loss = lossOf(flow, await this.#attempt(flow, milliseconds));
      if (loss?.kind !== "vanished" || (flow.protocol === "udp" && isTooBig(loss.counted))) break;
    }
    return loss;
  }

  async #attempt(flow: ProbeFlow, milliseconds: number): Promise<Attempt> {
    const { home, first, second } = this.#places;
    const sourcePort = this.#nextPort++;
    this.#tracer.events();
    const before = counters();
    const source = flow.from === "node" ? home : first.namespace;
    const places = { home, source, receiver: second.namespace };
    const isNeeded = flow.arrives === "answered" || flow.arrives === "received";
    const bound = isNeeded ? milliseconds : SHORT_MILLISECONDS;
    const isAnswered = send(this.#calls, places, flow, sourcePort, bound);
    await sleep(PAUSE_MILLISECONDS);
    return { sourcePort, isAnswered, events: this.#tracer.events(), counted: risen(before, counters()) };
  }
}

/** A kernel without IPv6 has no snmp6. */
function counters(): ReadonlyMap<string, number> {
  return readCounters(["snmp", "netstat", "snmp6"].map((file) => readOptional(`${NET}/${file}`)));
}

/** The headers before UDP's payload: IP and 8 bytes. */
const HEADERS = { 4: 28, 6: 48 } as const;

/** The namespaces of a probe. */
interface ProbePlaces {
  readonly home: NetworkNamespace;
  readonly source: NetworkNamespace;
  /** That of the second pod. */
  readonly receiver: NetworkNamespace;
}

/**
 * Sends the first packet of a flow, and waits for it or for its answer.
 *
 * @returns whether an answer came or our own socket has received it; false where the kernel refuses to send it, too
 * @throws SyscallError where a socket or its port is refused
 */
function send(
  calls: Syscalls,
  { home, source: from, receiver: to }: ProbePlaces,
  flow: ProbeFlow,
  sourcePort: number,
  milliseconds: number,
): boolean {
  const { protocol, source, destination, port } = flow;
  if (protocol === "tcp") {
    const ports = { source: sourcePort, destination: port };
    return insideNamespace(calls, home, from, () => isReached(calls, source, destination, milliseconds, ports));
  }
  const fds: number[] = [];
  const open = (namespace: NetworkNamespace, address: Address, number: number): number =>
    insideNamespace(calls, home, namespace, () => {
      const fd = openProbeSocket(calls, "udp", { address, port: number }, milliseconds);
      fds.push(fd);
      return fd;
    });
  try {
    const receiver = flow.arrives === "received" ? open(to, destination, port) : undefined;
    const sender = open(from, source, sourcePort);
    const payload = new Uint8Array(flow.length - HEADERS[familyOf(source)]);
    if (calls.connect(sender, socketAddressOf(destination, port)) < 0) return false;
    if (calls.send(sender, payload, 0) < 0) return false;
    const result = calls.receiveFrom(receiver ?? sender, new Uint8Array(1), 0, new Uint8Array(28));
    return result >= 0 || (receiver === undefined && result === -Errno.ECONNREFUSED);
  } finally {
    for (const fd of fds) calls.close(fd);
  }
}
