import assert from "node:assert/strict";
import { endianness } from "node:os";
import { bindLogGroup, knowsPacketLog } from "../../../kernel/packets/log_group.ts";
import { type LoggedPacket, parseLoggedPacket } from "../../../kernel/packets/logged_packet.ts";
import { NetlinkSocket } from "../../../kernel/netlink/socket.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { kernelAnswer, ScriptedSyscalls } from "./scripted_syscalls.ts";
import { skip } from "../../support/privilege.ts";

const PACKET = 0x400;
const group = { group: 0x1234, copyBytes: 96, queueThreshold: 32, queueMilliseconds: 105 };

/** @param attributes each in hex: number, then payload */
function logged(
  attributes: readonly (readonly [number: number, payload: string])[],
  type = PACKET,
): LoggedPacket | undefined {
  const parts = attributes.map(([number, payload]) => {
    const bytes = Buffer.from(payload, "hex");
    const header = Buffer.from(Uint16Array.of(bytes.length + 4, number).buffer);
    return Buffer.concat([header, bytes, Buffer.alloc(-bytes.length & 3)]);
  });
  const body = new Uint8Array(Buffer.concat([Buffer.from("02001234", "hex"), ...parts]));
  return parseLoggedPacket({ type, flags: 0, sequence: 0, body });
}

function prefixOf(bytes: Uint8Array): string | undefined {
  return logged([[10, Buffer.from(bytes).toString("hex")]])?.prefix;
}

describe("kernel/packets messages", () => {
  before(function () {
    if (endianness() !== "LE") skip(this, "the bytes are little-endian");
  });

  it("one request binds a group, with its copy length, threshold and timeout", () => {
    const { type, body } = bindLogGroup(group);
    assert.equal(type, 0x401);
    assert.equal(
      Buffer.from(body).toString("hex"),
      "00001234" + "0500010001000000" + "0a000200" + "00000060" + "02000000" + "080004000000000b" + "0800050000000020",
    );
  });

  it("a kernel has packet logging unless it refuses a question to the subsystem as unknown", () => {
    const knows = (errno: number): boolean =>
      knowsPacketLog(new NetlinkSocket(new ScriptedSyscalls([{ datagram: kernelAnswer(1, errno) }]), 0));
    // ENODEV: nobody has bound the group.
    assert.deepEqual([Errno.ENODEV, Errno.EINVAL].map(knows), [true, false]);
    assert.throws(() => knows(Errno.EPERM), { code: "ERR_NETLINK" });
  });

  it("groups and lengths that do not fit in 16 bits are refused", () => {
    for (const wrong of [-1, 0x1_0000, 1.5, Number.NaN]) {
      assert.throws(() => bindLogGroup({ ...group, group: wrong }), /group: .*; expected 0 to 65535/);
      assert.throws(() => bindLogGroup({ ...group, copyBytes: wrong }), /copyBytes: .*; expected 0 to 65535/);
    }
  });

  it("a prefix has only printable ASCII, and is cut at its NUL and at 127 characters", () => {
    for (let byte = 1; byte < 256; byte++) {
      const isPrintable = byte >= 0x20 && byte <= 0x7e;
      assert.equal(prefixOf(Uint8Array.of(0x61, byte, 0)), `a${isPrintable ? String.fromCharCode(byte) : "?"}`);
    }
    assert.equal(prefixOf(Buffer.from("a\0b")), "a");
    assert.equal(prefixOf(new Uint8Array(5000).fill(0x61)), "a".repeat(127));
  });
});
