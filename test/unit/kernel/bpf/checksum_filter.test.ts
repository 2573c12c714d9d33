import assert from "node:assert/strict";
import { CHECKSUM_PROGRAM, filterChecksums } from "../../../../kernel/bpf/checksum_filter.ts";
import { kernelChecksumProgram } from "../../../../kernel/bpf/kernel_program.ts";
import { hasOwnProgram } from "../../../../kernel/bpf/own_program.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import type { FileReadCalls } from "../../../../kernel/syscall/file_calls.ts";
import { btfBytes, packetTypes } from "./btf_bytes.ts";
import { FakeBpf, PROG_ATTACH, PROG_GET_FD_BY_ID, PROG_LOAD, PROG_QUERY } from "./fake_bpf.ts";

const BRIDGE = 3;
const TYPES_FILE = 5;

/** A kernel whose description of its types has these bytes, or is missing. */
class FakeKernel extends FakeBpf implements FileReadCalls {
  readonly #types: Uint8Array | undefined;

  constructor(types: Uint8Array | undefined, answers: Readonly<Record<number, readonly number[]>> = {}) {
    super(answers);
    this.#types = types;
  }

  open(path: string): number {
    assert.equal(path, "/sys/kernel/btf/vmlinux");
    if (this.#types === undefined) return -Errno.ENOENT;
    this.descriptors.add(TYPES_FILE);
    return TYPES_FILE;
  }

  pread(_: number, buffer: Uint8Array, offset: number): number {
    const part = this.#types?.subarray(offset, offset + buffer.length) ?? new Uint8Array();
    buffer.set(part);
    return part.length;
  }

  read = (): number => assert.fail("the description is read in parts");
  getdents64 = (): number => assert.fail("no directory is read");
  statx = (): number => assert.fail("no file is looked at");
}

describe("kernel/bpf/checksum_filter", () => {
  it("GUARD-18: a bridge gets the program for this kernel's packets", () => {
    const kernel = new FakeKernel(btfBytes(packetTypes()));
    assert.equal(filterChecksums(kernel, BRIDGE, kernelChecksumProgram), true);
    assert.ok(kernel.asked.includes(PROG_LOAD) && kernel.asked.includes(PROG_ATTACH));
    assert.deepEqual([...kernel.descriptors], []);
  });

  const WITHOUT: Readonly<Record<string, Uint8Array | undefined>> = {
    "no description of its types": undefined,
    "one that is not BTF": new Uint8Array(100),
    "one without struct sk_buff": btfBytes([{ kind: "int" }]),
  };
  for (const [title, types] of Object.entries(WITHOUT)) {
    it(`GUARD-18: a bridge gets no program where the kernel has ${title}`, () => {
      const kernel = new FakeKernel(types);
      assert.equal(filterChecksums(kernel, BRIDGE, kernelChecksumProgram), false);
      assert.ok(!kernel.asked.includes(PROG_LOAD));
      assert.deepEqual([...kernel.descriptors], []);
    });
  }

  for (const [command, errno] of [
    [PROG_QUERY, "EINVAL"],
    [PROG_LOAD, "EPERM"],
    [PROG_ATTACH, "ENODEV"],
  ] as const) {
    it(`GUARD-18: a bridge has no program where the kernel answers ${errno} to command ${command}, and the next try may succeed`, () => {
      const kernel = new FakeKernel(btfBytes(packetTypes()), { [command]: [-Errno[errno]] });
      assert.equal(filterChecksums(kernel, BRIDGE, kernelChecksumProgram), false);
      assert.deepEqual([...kernel.descriptors], []);
      assert.equal(filterChecksums(kernel, BRIDGE, kernelChecksumProgram), true);
    });
  }

  it("GUARD-18: a program is loaded again when a signal has interrupted its verification, five times at most", () => {
    const interrupted = new FakeKernel(btfBytes(packetTypes()), { [PROG_LOAD]: [-Errno.EAGAIN, -Errno.EAGAIN] });
    assert.equal(filterChecksums(interrupted, BRIDGE, kernelChecksumProgram), true);
    const always = new FakeKernel(btfBytes(packetTypes()), { [PROG_LOAD]: Array(9).fill(-Errno.EAGAIN) });
    assert.equal(filterChecksums(always, BRIDGE, kernelChecksumProgram), false);
    assert.equal(always.asked.filter((command) => command === PROG_LOAD).length, 5);
  });

  it("GUARD-18: the bridge's programs are read again when another program was attached meanwhile", () => {
    const kernel = new FakeKernel(btfBytes(packetTypes()), { [PROG_ATTACH]: [-Errno.ESTALE] });
    assert.equal(filterChecksums(kernel, BRIDGE, kernelChecksumProgram), true);
    assert.equal(kernel.asked.filter((command) => command === PROG_QUERY).length, 2);
  });

  for (const [command, errno] of [
    [PROG_QUERY, "EPERM"],
    [PROG_QUERY, "ENOSYS"],
    [PROG_GET_FD_BY_ID, "EPERM"],
  ] as const) {
    it(`GUARD-18: who gets ${errno} for command ${command} does not learn that a bridge has no program`, () => {
      const kernel = new FakeBpf({ [command]: [-Errno[errno]] }, 1);
      assert.throws(() => hasOwnProgram(kernel, CHECKSUM_PROGRAM, BRIDGE), new RegExp(errno));
    });
  }

  it("GUARD-18: a bridge has no program where the kernel has no place for one", () => {
    const kernel = new FakeBpf({ [PROG_QUERY]: [-Errno.EINVAL] });
    assert.equal(hasOwnProgram(kernel, CHECKSUM_PROGRAM, BRIDGE), false);
  });
});
