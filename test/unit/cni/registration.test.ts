import assert from "node:assert/strict";
import { frame } from "../../../attachment/message_frame.ts";
import { type PolicydReply, replyToJson } from "../../../attachment/policyd_messages.ts";
import { decodeConfiguration } from "../../../cni/configuration/decoding.ts";
import { detachShape, networkShape } from "../../../cni/configuration/network_input.ts";
import { detachAccess, policydAccess, type RegistrationAccess } from "../../../cni/configuration/policyd_access.ts";
import type { PluginMachine } from "../../../cni/host.ts";
import * as nodeRules from "../../../cni/pod_rules.ts";
import { register, unregister, type Unregistration } from "../../../cni/registration.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import type { Waiting } from "../../../kernel/waiting.ts";
import { attachmentRecord } from "../../support/cni/attachment_record.ts";
import { fakeNode } from "../../support/cni/fake_node.ts";
import { type ReceiveStep, ScriptedSyscalls } from "../kernel/scripted_syscalls.ts";

const SOCKET = "/run/drawbridge/policyd.sock";
const FAIL: RegistrationAccess = { socket: SOCKET, wait: 1000, onUnavailable: "fail" };
const CLOSED: RegistrationAccess = { ...FAIL, onUnavailable: "closed" };
/** The answer of receiveFrom at the end of a connection. */
const END: ReceiveStep = { datagram: new Uint8Array(), length: 0 };

/** A daemon that refuses the given number of connections and then gives its answers; pauses take no time. */
class Daemon extends ScriptedSyscalls implements Waiting {
  readonly node: PluginMachine;
  readonly closings: string[] = [];
  tries = 0;
  #now = 0;
  readonly #refusals: number;

  constructor(refusals: number, received: readonly ReceiveStep[] = []) {
    super(received);
    this.#refusals = refusals;
    const rules: typeof nodeRules = {
      ...nodeRules,
      demandClosed: (_node, _record, reason) => void this.closings.push(reason),
    };
    const node = fakeNode("/nowhere");
    const calls = {
      socket: () => this.socket(),
      connect: () => this.connect(),
      setsockopt: () => this.setsockopt(),
      send: (fd: number, data: Uint8Array) => this.send(fd, data),
      receiveFrom: (fd: number, buffer: Uint8Array, flags: number, sender: Uint8Array) =>
        this.receiveFrom(fd, buffer, flags, sender),
      close: () => this.close(),
    };
    this.node = { ...node, syscalls: { ...node.syscalls, ...calls }, nodeRules: () => rules };
  }

  override connect(): number {
    return ++this.tries <= this.#refusals ? -Errno.ECONNREFUSED : 0;
  }

  now(): number {
    return this.#now;
  }

  pause(milliseconds: number): void {
    this.#now += milliseconds;
  }

  /** Registers a pod as ADD does. */
  register(access: RegistrationAccess): void {
    register(this.node, access, attachmentRecord(), { runDir: "/nowhere", waiting: this }).wait();
  }
}

function reply(message: PolicydReply): ReceiveStep {
  return { datagram: frame(replyToJson(message)) };
}

const refusal = (isTemporary: boolean): ReceiveStep =>
  reply({ type: "refused", isTemporary, message: "not in force within 1000 ms: no Pod object" });

describe("cni/registration", () => {
  it('the configuration key is read, and onUnavailable is "fail" by default', () => {
    assert.deepEqual(policydAccess({}), { socket: SOCKET, wait: 10_000, onUnavailable: "fail" });
    assert.equal(policydAccess({ onUnavailable: "closed" })?.onUnavailable, "closed");
    assert.equal(policydAccess(undefined), undefined);
  });

  it('REG-06: a permanent refusal is an error with "closed", too', () => {
    const code = "ERR_HOST_PORT_TAKEN";
    for (const answer of [refusal(false), reply({ type: "refused", isTemporary: false, message: "taken", code })]) {
      const daemon = new Daemon(0, [answer]);
      assert.throws(() => daemon.register(CLOSED), DrawbridgeError);
      assert.deepEqual(daemon.closings, []);
    }
    for (const unknown of [{}, { code: "ERR_POD_UNKNOWN" }] as const) {
      const daemon = new Daemon(0, [
        reply({ type: "refused", isTemporary: true, message: "no Pod object", ...unknown }),
      ]);
      daemon.register(CLOSED);
      assert.equal(daemon.closings.length, 1, "a temporary one leaves the pod closed");
    }
  });

  it("a refusal is reported at once with its reason", () => {
    const daemon = new Daemon(0, [refusal(true)]);
    assert.throws(() => daemon.register(FAIL), { code: "ERR_UNAVAILABLE", message: /^policyd: .*no Pod object$/ });
    assert.equal(daemon.now(), 0);
  });

  it("REG-01: DEL reads the same socket from the configuration as ADD, with keys in any case", () => {
    const socketOf = (policyd: unknown): readonly unknown[] => {
      const text = JSON.stringify({ cniVersion: "1.1.0", name: "pods", POLICYD: policyd });
      return [
        policydAccess(decodeConfiguration(text, networkShape).policyd)?.socket,
        detachAccess(decodeConfiguration(text, detachShape).policyd)?.socket,
      ];
    };
    for (const [policyd, socket] of [
      [{}, SOCKET],
      [{ socket: "/run/x.sock" }, "/run/x.sock"],
      [{ Socket: "/run/x.sock", WAIT: "5s" }, "/run/x.sock"],
      [{ SOCKET: "/run/x.sock", socket: "/run/y.sock" }, "/run/y.sock"],
      [{ socket: "/run/y.sock", SOCKET: "/run/x.sock" }, "/run/x.sock"],
      [{ socket: null }, SOCKET],
      [{ socket: "/run/x.sock", Socket: null }, "/run/x.sock"],
      [null, undefined],
    ] as const) {
      assert.deepEqual(socketOf(policyd), [socket, socket], JSON.stringify(policyd));
    }
  });

  it("REG-01: parts of the key that ADD refuses count as absent for DEL", () => {
    for (const socket of [7, {}, [], true, "", "run/x.sock", "/run/../x.sock"]) {
      assert.deepEqual(detachAccess({ Socket: socket, wait: {}, onUnavailable: 7 }), { socket: SOCKET, wait: 10_000 });
    }
    for (const key of ["/run/x.sock", true, 7, [{ socket: "/run/x.sock" }], null, undefined]) {
      assert.equal(detachAccess(key), undefined);
    }
  });

  it("DEL-02: unregister returns how far the daemon has come, and does not wait for one that is away", () => {
    const name = { network: "drawbridge", containerId: "c0ffee", ifname: "eth0" };
    const doneBy = (daemon: Daemon): Unregistration => unregister(daemon.node, FAIL, name);
    assert.equal(doneBy(new Daemon(0, [reply({ type: "done", isDetached: true })])), "detached");
    assert.equal(doneBy(new Daemon(0, [reply({ type: "done", isDetached: false })])), "forgotten");
    assert.equal(doneBy(new Daemon(0, [reply({ type: "done" })])), "forgotten");
    assert.equal(doneBy(new Daemon(0, [END])), "undone");
    assert.equal(doneBy(new Daemon(0, [refusal(true)])), "undone");
    const away = new Daemon(5);
    assert.equal(doneBy(away), "undone");
    assert.equal(away.tries, 1);
  });
});
