import assert from "node:assert/strict";
import { assembleBpf, type BpfInstruction } from "../../../../kernel/bpf/instruction.ts";

/** Prints eight bytes per line, as bpftool does. */
function hex(instructions: readonly BpfInstruction[]): readonly string[] {
  const bytes = Buffer.from(assembleBpf(instructions));
  return Array.from({ length: bytes.length / 8 }, (_, line) => bytes.toString("hex", line * 8, line * 8 + 8));
}

describe("kernel/bpf/instruction", () => {
  // These bytes were computed by hand from the tables of the instruction set; in test/kernel the kernel reads a whole
  // program.
  const CASES: readonly (readonly [BpfInstruction, string])[] = [
    [{ do: "set", to: 0, value: -1 }, "b7000000ffffffff"], // r0 = -1
    [{ do: "copy", to: 4, from: 2 }, "bf24000000000000"], // r4 = r2
    [{ do: "add", to: 4, value: 14 }, "070400000e000000"], // r4 += 14
    [{ do: "and", to: 8, value: 4095 }, "57080000ff0f0000"], // r8 &= 4095
    [{ do: "from network order", to: 8, width: 2 }, "dc08000010000000"], // r8 = be16 r8
    [{ do: "load", to: 2, from: 1, at: 76, width: 4 }, "61124c0000000000"], // r2 = *(u32 *)(r1 + 76)
    [{ do: "load", to: 7, from: 2, at: 4, width: 2 }, "6927040000000000"], // r7 = *(u16 *)(r2 + 4)
    [{ do: "store", from: 8, to: 10, at: -4, width: 4 }, "638afcff00000000"], // *(u32 *)(r10 - 4) = r8
    [{ do: "store", from: 8, to: 10, at: -2, width: 2 }, "6b8afeff00000000"], // *(u16 *)(r10 - 2) = r8
    [{ do: "call", helper: 23 }, "8500000017000000"], // call 23
    [{ do: "load", to: 7, from: 10, at: -80, width: 1 }, "71a7b0ff00000000"], // r7 = *(u8 *)(r10 - 80)
    [{ do: "load", to: 8, from: 10, at: -8, width: 8 }, "79a8f8ff00000000"], // r8 = *(u64 *)(r10 - 8)
    [{ do: "shift left", to: 9, value: 2 }, "6709000002000000"], // r9 <<= 2
    [{ do: "add register", to: 7, from: 8 }, "0f87000000000000"], // r7 += r8
    [{ do: "subtract register", to: 7, from: 9 }, "1f97000000000000"], // r7 -= r9
    [{ do: "exit" }, "9500000000000000"],
  ];
  for (const [instruction, bytes] of CASES) {
    it(`writes ${JSON.stringify(instruction)}`, () => assert.deepEqual(hex([instruction]), [bytes]));
  }

  it("a jump counts from the next instruction, forwards and backwards, and a map load counts as two", () => {
    assert.deepEqual(
      hex([
        { do: "label", name: "begin" },
        { do: "jump if equal", register: 0, value: 0, label: "end" },
        { do: "load map", to: 1, fd: 7 },
        { do: "jump if registers differ", registers: [1, 6], label: "begin" },
        { do: "jump if greater", register: 4, than: 3, label: "end" },
        { do: "label", name: "end" },
        { do: "exit" },
      ]),
      [
        "1500040000000000",
        "1811000007000000",
        "0000000000000000",
        "5d61fcff00000000",
        "2d34000000000000",
        "9500000000000000",
      ],
    );
  });

  it("each comparison with a number has its own code, and a jump without a condition compares nothing", () => {
    assert.deepEqual(
      hex([
        { do: "jump if equal", register: 8, value: 6, label: "end" },
        { do: "jump if not equal", register: 0, value: 0, label: "end" },
        { do: "jump if less", register: 7, value: 8, label: "end" },
        { do: "jump", label: "end" },
        { do: "label", name: "end" },
        { do: "exit" },
      ]),
      ["1508030006000000", "5500020000000000", "c507010008000000", "0500000000000000", "9500000000000000"],
    );
  });

  it("a jump to a missing label is refused", () => {
    assert.throws(() => hex([{ do: "jump", label: "end" }]), RangeError);
  });
});
