import assert from "node:assert/strict";
import type { Syscalls } from "../../../kernel/syscall/syscalls.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";
import { Writer } from "../../../kernel/byte_writer.ts";

/** A datagram with its sender's port ID, or the errno of a receive that failed. */
export type ReceiveStep =
  | number
  | { readonly datagram: Uint8Array; readonly portId?: number; readonly length?: number };

/** System calls that answer from a script and record their arguments. */
export class ScriptedSyscalls implements Syscalls {
  readonly sent: Uint8Array[] = [];
  /** Results of the next sends; those after them succeed. */
  readonly sendResults: number[] = [];
  /** Results of the next setns calls; those after them succeed. */
  readonly setnsResults: number[] = [];
  readonly entered: number[] = [];
  /** Results of the next calls that open and prepare a socket, by name; those after them succeed. */
  readonly openingResults: Partial<Record<"socket" | "bind" | "setsockopt", number[]>> = {};
  /** The descriptors in the order in which they were closed. */
  readonly closedDescriptors: number[] = [];
  #lastFd = 6;
  readonly #received: ReceiveStep[];

  constructor(received: readonly ReceiveStep[] = []) {
    this.#received = [...received];
  }

  get unread(): number {
    return this.#received.length;
  }

  socket(): number {
    const result = this.openingResults.socket?.shift() ?? 0;
    return result < 0 ? result : ++this.#lastFd;
  }

  bind(): number {
    return this.openingResults.bind?.shift() ?? 0;
  }

  connect(): number {
    return 0;
  }

  setsockopt(): number {
    return this.openingResults.setsockopt?.shift() ?? 0;
  }

  send(_fd: number, data: Uint8Array): number {
    const result = this.sendResults.shift() ?? data.length;
    if (result >= 0) this.sent.push(data.slice());
    return result;
  }

  receiveFrom(_fd: number, buffer: Uint8Array, _flags: number, sender: Uint8Array): number {
    const step = this.#received.shift();
    assert.ok(step !== undefined, "the code reads more than the kernel sends: it would hang");
    if (typeof step === "number") return -step;
    buffer.set(step.datagram.subarray(0, buffer.length));
    sender.fill(0);
    new DataView(sender.buffer).setUint16(0, 16, littleEndian);
    new DataView(sender.buffer).setUint32(4, step.portId ?? 0, littleEndian);
    return step.length ?? step.datagram.length;
  }

  setns(fd: number): number {
    const result = this.setnsResults.shift() ?? 0;
    if (result === 0) this.entered.push(fd);
    return result;
  }

  lock(): number {
    return 0;
  }

  flock(): number {
    return 0;
  }

  close(fd = 0): number {
    this.closedDescriptors.push(fd);
    return 0;
  }
}

/** Builds one netlink message as the kernel does. */
export function kernelMessage(type: number, sequence: number, body: Uint8Array, flags = 0): Uint8Array {
  const writer = new Writer();
  writer.u32(16 + body.length);
  writer.u16(type);
  writer.u16(flags);
  writer.u32(sequence);
  writer.u32(1234);
  writer.bytes(body);
  writer.align();
  return writer.view();
}

/** Builds an acknowledgement, or with an errno a refusal, capped as NETLINK_CAP_ACK asks. */
export function kernelAnswer(sequence: number, errno = 0): Uint8Array {
  return kernelMessage(2, sequence, errorBody(errno, 16, new Uint8Array(0)), 0x100);
}

/** Builds NLMSG_DONE with the result of the dump. */
export function dumpEnd(sequence: number, result = 0, flags = 2): Uint8Array {
  const writer = new Writer();
  writer.i32(result);
  return kernelMessage(3, sequence, writer.view(), flags);
}

/**
 * Builds struct nlmsgerr: the errno, `echoed` bytes of the request of which only the length field is filled, and
 * attributes.
 */
export function errorBody(errno: number, echoed: number, attributes: Uint8Array): Uint8Array {
  const writer = new Writer();
  writer.i32(-errno);
  writer.u32(echoed);
  writer.bytes(new Uint8Array(echoed - 4));
  writer.align();
  writer.bytes(attributes);
  return writer.view();
}

/** Joins messages to one datagram, as the kernel sends several messages in one. */
export function joined(...messages: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(messages.flatMap((message) => [...message]));
}
