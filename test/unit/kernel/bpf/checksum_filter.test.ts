import assert from "node:assert/strict";
import { CHECKSUM_PROGRAM, filterChecksums } from "../../../../kernel/bpf/checksum_filter.ts";
import { kernelChecksumProgram } from "../../../../kernel/bpf/checksum_program.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import type { FileReadCalls } from "../../../../kernel/syscall/file_calls.ts";
import { btfBytes, packetTypes } from "./btf_bytes.ts";
import { FakeBpf, FakeClassifiers, PROG_LOAD } from "./fake_bpf.ts";

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

function filter(kernel: FakeKernel, socket = new FakeClassifiers(CHECKSUM_PROGRAM)): boolean {
  return filterChecksums({ syscalls: kernel, socket }, BRIDGE, kernelChecksumProgram);
}

describe("kernel/bpf/checksum_filter", () => {
  it("GUARD-18: a bridge gets the program for this kernel's packets, once", () => {
    const kernel = new FakeKernel(btfBytes(packetTypes()));
    const socket = new FakeClassifiers(CHECKSUM_PROGRAM);
    for (let time = 0; time < 2; time++) assert.equal(filter(kernel, socket), true);
    assert.deepEqual([kernel.asked, socket.added, [...kernel.descriptors]], [[PROG_LOAD], 1, []]);
  });

  const WITHOUT: Readonly<Record<string, Uint8Array | undefined>> = {
    "no description of its types": undefined,
    "one that is not BTF": new Uint8Array(100),
    "one without struct sk_buff": btfBytes([{ kind: "int" }]),
  };
  for (const [title, types] of Object.entries(WITHOUT)) {
    it(`GUARD-18: a bridge gets no program where the kernel has ${title}`, () => {
      const kernel = new FakeKernel(types);
      assert.equal(filter(kernel), false);
      assert.deepEqual([kernel.asked, [...kernel.descriptors]], [[], []]);
    });
  }

  it("GUARD-18: a bridge has no program where the kernel loads none, or has no such filter, and the next try may succeed", () => {
    const kernel = new FakeKernel(btfBytes(packetTypes()), { [PROG_LOAD]: [-Errno.EPERM] });
    const socket = new FakeClassifiers(CHECKSUM_PROGRAM, undefined, ["ENOENT"]);
    assert.deepEqual(
      [1, 2, 3].map(() => filter(kernel, socket)),
      [false, false, true],
    );
    assert.deepEqual([...kernel.descriptors], []);
  });

  it("GUARD-18: a bridge has the program when another process adds it at the same time", () => {
    const socket = new FakeClassifiers(CHECKSUM_PROGRAM, undefined, ["EEXIST"]);
    assert.equal(filter(new FakeKernel(btfBytes(packetTypes())), socket), true);
    assert.equal(socket.added, 1);
  });

  it("GUARD-18: a bridge has no program where another program's has the place", () => {
    const socket = new FakeClassifiers(CHECKSUM_PROGRAM, "another");
    assert.equal(filter(new FakeKernel(btfBytes(packetTypes())), socket), false);
  });

  it("GUARD-18: a program is loaded again when a signal has interrupted its verification, five times at most", () => {
    const interrupted = new FakeKernel(btfBytes(packetTypes()), { [PROG_LOAD]: [-Errno.EAGAIN, -Errno.EAGAIN] });
    assert.equal(filter(interrupted), true);
    const always = new FakeKernel(btfBytes(packetTypes()), { [PROG_LOAD]: Array(9).fill(-Errno.EAGAIN) });
    assert.equal(filter(always), false);
    assert.equal(always.asked.filter((command) => command === PROG_LOAD).length, 5);
  });
});
