import assert from "node:assert/strict";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { UnixStream } from "../../../kernel/unix_stream.ts";
import type { Waiting } from "../../../kernel/waiting.ts";
import { ScriptedSyscalls } from "./scripted_syscalls.ts";

const PATH = "/run/drawbridge/policyd.sock";

/** A clock that the pauses and the scripted calls advance. */
class ScriptedTime implements Waiting {
  at = 0;

  now(): number {
    return this.at;
  }

  pause(milliseconds: number): void {
    this.at += milliseconds;
  }
}

class Calls extends ScriptedSyscalls {
  readonly connects: number[] = [];
  readonly addresses: Uint8Array[] = [];
  readonly timeouts: (readonly [option: number, milliseconds: number])[] = [];
  closed = 0;

  override connect(_fd?: number, address?: Uint8Array): number {
    if (address !== undefined) this.addresses.push(address.slice());
    return this.connects.shift() ?? 0;
  }

  override setsockopt(_fd?: number, _level?: number, option = 0, value: Uint8Array = new Uint8Array(16)): number {
    const [seconds = 0n, microseconds = 0n] = new BigInt64Array(value.slice().buffer);
    this.timeouts.push([option, Number(seconds) * 1000 + Number(microseconds) / 1000]);
    return 0;
  }

  override close(): number {
    this.closed++;
    return 0;
  }
}

describe("kernel/unix_stream", () => {
  it("the stream connects by path, and repeats after a signal with the time that is left", () => {
    const [calls, time] = [new Calls(), new ScriptedTime()];
    calls.connects.push(-Errno.EINTR, -Errno.EAGAIN);
    const stream = new UnixStream(calls, "/x", 1500, time);
    assert.deepEqual([...(calls.addresses[2] ?? [])], [1, 0, 0x2f, 0x78, 0]);
    assert.deepEqual(calls.timeouts, [
      [21, 1500],
      [21, 1500],
      [21, 1499],
    ]);
    stream.close();
    assert.equal(calls.closed, 1);
  });

  it("the error of a refused connection names the daemon, and no descriptor is left", () => {
    const calls = new Calls();
    calls.connects.push(-Errno.ECONNREFUSED);
    assert.throws(() => new UnixStream(calls, PATH, 1000, new ScriptedTime()), {
      code: "ERR_UNAVAILABLE",
      message: `cannot connect to ${PATH}: connection refused (ECONNREFUSED); is policyd running?`,
    });
    assert.equal(calls.closed, 1);
  });

  it("send continues after a part, without a SIGPIPE", () => {
    const calls = new Calls();
    const flags: number[] = [];
    calls.send = (_fd: number, data: Uint8Array, flag?: number): number => {
      flags.push(flag ?? 0);
      calls.sent.push(data.slice(0, 2));
      return Math.min(2, data.length);
    };
    new UnixStream(calls, PATH, 1000, new ScriptedTime()).send(Uint8Array.of(1, 2, 3));
    assert.deepEqual(calls.sent, [Uint8Array.of(1, 2), Uint8Array.of(3)]);
    assert.deepEqual(flags, [0x4000, 0x4000]);
  });

  it("receive fails at the deadline, whatever was received before", () => {
    const time = new ScriptedTime();
    const calls = new Calls([{ datagram: Uint8Array.of(7) }, Errno.EAGAIN, { datagram: Uint8Array.of(8) }]);
    const stream = new UnixStream(calls, PATH, 100, time);
    assert.deepEqual([...stream.receive()], [7]);
    time.at = 99.5;
    assert.throws(() => stream.receive(), { code: "ERR_UNAVAILABLE", message: /receive from .*ETIMEDOUT/ });
    assert.equal(calls.unread, 1);
  });

  it("data that came in time is received once after the deadline", () => {
    const time = new ScriptedTime();
    const calls = new Calls([{ datagram: Uint8Array.of(7) }, { datagram: Uint8Array.of(8) }]);
    const stream = new UnixStream(calls, PATH, 100, time);
    time.at = 5000;
    assert.deepEqual([...stream.receive()], [7]);
    assert.throws(() => stream.receive(), { code: "ERR_UNAVAILABLE", message: /receive from .*ETIMEDOUT/ });
    assert.throws(() => stream.send(Uint8Array.of(1)), { code: "ERR_UNAVAILABLE" });
  });

  it("a path that no socket can have is refused", () => {
    for (const path of ["", "/".repeat(108), "/a\0b"]) {
      assert.throws(() => new UnixStream(new Calls(), path, 1000, new ScriptedTime()), { code: "ERR_CONFIGURATION" });
    }
  });
});
