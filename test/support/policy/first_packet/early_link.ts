import { type MacAddress, macToBytes } from "../../../../kernel/ip/mac.ts";
import { check } from "../../../../kernel/syscall/syscalls.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";

const AF_PACKET = 17;
const SOCK_RAW = 3;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOCKADDR_LL_SIZE = 20;

/**
 * Sends frames over an interface that need not exist yet, by its future index, as a program with CAP_NET_RAW can do
 * that is in a pod's namespace before the pod is attached.
 */
export class EarlyLink implements Disposable {
  readonly #namespace: LabNamespace;
  readonly #fd: number;
  readonly #address = new Uint8Array(SOCKADDR_LL_SIZE);

  /** @throws SyscallError without the privilege */
  constructor(namespace: LabNamespace, interfaceIndex: number, to: MacAddress) {
    const { calls } = namespace;
    this.#namespace = namespace;
    this.#fd = namespace.inside(() =>
      check(calls.socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), `${namespace.name}: packet socket`),
    );
    new Uint16Array(this.#address.buffer, 0, 1)[0] = AF_PACKET;
    new Int32Array(this.#address.buffer, 4, 1)[0] = interfaceIndex;
    this.#address[11] = 6;
    this.#address.set(macToBytes(to), 12);
  }

  /** @returns whether the interface exists, is up and accepted the frame */
  send(frame: Uint8Array): boolean {
    return this.#namespace.calls.sendTo(this.#fd, frame, 0, this.#address) >= 0;
  }

  [Symbol.dispose](): void {
    this.#namespace.calls.close(this.#fd);
  }
}
