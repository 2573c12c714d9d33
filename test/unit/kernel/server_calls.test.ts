import assert from "node:assert/strict";
import fc from "fast-check";
import { littleEndian } from "../../../kernel/netlink/writer.ts";
import { controlSize, descriptorsIn, isCut, messageHeader, MSGHDR_SIZE } from "../../../kernel/syscall/server_calls.ts";

/** Builds one control message as the kernel does (put_cmsg, scm_detach_fds). */
function control(fds: readonly number[], { size = controlSize(fds.length), level = 1, type = 1 } = {}): Uint8Array {
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  view.setBigUint64(0, BigInt(16 + 4 * fds.length), littleEndian);
  view.setInt32(8, level, littleEndian);
  view.setInt32(12, type, littleEndian);
  for (const [i, fd] of fds.entries()) view.setInt32(16 + 4 * i, fd, littleEndian);
  return bytes;
}

describe("kernel/server_calls", () => {
  it("a control buffer has room for its descriptors, aligned as CMSG_SPACE aligns it", () => {
    assert.deepEqual([0, 1, 2, 3, 4, 5].map(controlSize), [16, 24, 24, 32, 32, 40]);
  });

  it("descriptorsIn returns the descriptors of an SCM_RIGHTS message of SOL_SOCKET, and none of another", () => {
    assert.deepEqual(descriptorsIn(control([5, 6, 7])), [5, 6, 7]);
    assert.deepEqual(descriptorsIn(control([5, 6, 7, 8])), [5, 6, 7, 8]);
    assert.deepEqual(descriptorsIn(control([5], { size: 32 })), [5]);
    assert.deepEqual(descriptorsIn(new Uint8Array(32)), []);
    assert.deepEqual(descriptorsIn(control([5], { level: 0 })), []);
    assert.deepEqual(descriptorsIn(control([5], { type: 2 })), []);
  });

  it("descriptorsIn reads nothing beyond the buffer, whatever length the bytes claim", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), fc.boolean(), (bytes, isRights) => {
        if (isRights && bytes.length >= 16) bytes.set(control([]).subarray(8, 16), 8);
        assert.ok(descriptorsIn(bytes).length <= Math.max(0, (bytes.length - 16) / 4));
      }),
    );
  });

  it("messageHeader puts its parts where struct msghdr has them, and the flags show what was cut", () => {
    const header = new DataView(new ArrayBuffer(MSGHDR_SIZE));
    const vector = new DataView(new ArrayBuffer(16));
    header.setInt32(48, -1, littleEndian);
    messageHeader(header, { view: vector, address: 1n }, { address: 2n, length: 3 }, { address: 4n, length: 5 });
    const words = Array.from({ length: MSGHDR_SIZE / 8 }, (_, i) => header.getBigUint64(8 * i, littleEndian));
    assert.deepEqual(words, [0n, 0n, 1n, 1n, 4n, 5n, 0n]);
    assert.deepEqual([vector.getBigUint64(0, littleEndian), vector.getBigUint64(8, littleEndian)], [2n, 3n]);
    const cutBy = (flags: number): boolean => {
      header.setInt32(48, flags, littleEndian);
      return isCut(header);
    };
    // MSG_CMSG_CLOEXEC only; MSG_TRUNC; MSG_CTRUNC.
    assert.deepEqual([0, 0x40000000, 0x20, 0x40000008].map(cutBy), [false, false, true, true]);
  });
});
