import assert from "node:assert/strict";
import { encodeArm64 } from "../../../../cni/shim/arm64.ts";
import { assemble } from "../../../../cni/shim/assemble.ts";
import {
  add,
  address,
  at,
  initialStack,
  jump,
  jumpIf,
  label,
  load,
  type Operation,
  set,
  store,
  subtract,
  system,
} from "../../../../cni/shim/operation.ts";

/** Returns the instructions as words, as the manual and objdump write them. */
function machineCode(...operations: readonly Operation[]): string {
  const code = Buffer.from(assemble(operations, encodeArm64, () => 0x412340));
  const words = Array.from({ length: code.length / 4 }, (_, index) => code.readUInt32LE(index * 4));
  return words.map((word) => word.toString(16).padStart(8, "0")).join(" ");
}

/** Each operation with the text that objdump prints for its words. */
const cases: readonly (readonly [string, Operation, string])[] = [
  ["mov x19, sp", initialStack("stack"), "910003f3"],
  ["mov x20, x9", set("file", "result"), "aa0903f4"],
  ["mov x24, 5", set("left", 5), "d28000b8"],
  ["mov x20, -100", set("file", -100), "92800c74"],
  ["mov x23, 0xffff; movk x23, 0xffff, lsl 16", set("cursor", 0xffffffff), "d29ffff7 f2bffff7"],
  ["mov x23, 0x2344; movk x23, 0x41, lsl 16", set("cursor", address("x", 4)), "d2846897 f2a00837"],
  ["add x23, x23, 1", add("cursor", 1), "910006f7"],
  ["sub x23, x23, 1", add("cursor", -1), "d10006f7"],
  ["add x24, x24, x24", add("left", "left"), "8b180318"],
  ["add x24, x24, 65536 by x10", add("left", 65536), "d280000a f2a0002a 8b0a0318"],
  ["sub x24, x24, x9", subtract("left", "result"), "cb090318"],
  ["sub x21, x21, 8", subtract("total", 8), "d10022b5"],
  ["ldrb w24, [x23]", load(1, "left", at("cursor")), "394002f8"],
  ["ldr w20, [x19, 4]", load(4, "file", at("stack", 4)), "b9400674"],
  ["ldr x9, [x21, 16]", load(8, "result", at("total", 16)), "f9400aa9"],
  ["ldrb w9, [0x412341] by x10", load(1, "result", address("x", 1)), "d284682a f2a0082a 39400149"],
  ["strb w9, [x21, 3]", store(1, at("total", 3), "result"), "39000ea9"],
  ["str w9, [0x412354] by x10", store(4, address("x", 20), "result"), "d2846a8a f2a0082a b9000149"],
  ["str x19, [x24, 8]", store(8, at("left", 8), "stack"), "f9000713"],
];

describe("cni/shim/arm64", () => {
  for (const [text, operation, expected] of cases)
    it(`encodes ${text}`, () => {
      assert.equal(machineCode(operation), expected);
    });

  it("a jump counts from the instruction itself, back and forth", () => {
    assert.equal(machineCode(label("a"), jump("a"), jump("b"), label("b")), "14000000 14000001");
    assert.equal(machineCode(label("a"), set("left", 5), jump("a")), "d28000b8 17ffffff");
  });

  const comparisons = { "==": "0", "!=": "1", ">=": "a", "<": "b", ">": "c", "<=": "d" } as const;
  for (const [comparison, code] of Object.entries(comparisons))
    it(`jumps if ${comparison}, in a signed comparison`, () => {
      const operation = jumpIf("result", comparison as keyof typeof comparisons, -4, "a");
      assert.equal(machineCode(label("a"), operation), `b100113f 54ffffe${code}`);
    });

  it("a comparison with a register, a long number and an address is encoded", () => {
    assert.equal(machineCode(label("a"), jumpIf("result", "!=", "left", "a")), "eb18013f 54ffffe1");
    assert.equal(machineCode(label("a"), jumpIf("total", ">", 4194304, "a")), "d280000a f2a0080a eb0a02bf 54ffffac");
    assert.equal(
      machineCode(label("a"), jumpIf("cursor", "<=", address("x"), "a")),
      "d284680a f2a0082a eb0a02ff 54ffffad",
    );
  });

  it("a result is kept in a register where no argument is set, so any argument can be the last result", () => {
    assert.equal(
      machineCode(system("openat", -100, address("x"), 0o2000000, "result")),
      "92800c60 d2846801 f2a00821 d2800002 f2a00102 aa0903e3 d2800708 d4000001 aa0003e9",
    );
  });

  it("numbers that an instruction does not hold, and a seventh argument, are refused", () => {
    for (const operation of [
      set("left", 2 ** 32),
      set("left", -65537),
      load(8, "left", at("stack", 4)),
      load(8, "left", at("stack", -8)),
      load(1, "left", at("stack", 4096)),
    ])
      assert.throws(() => machineCode(operation), { code: "ERR_INPUT", message: /which AArch64 encodes/ });
    assert.throws(() => machineCode(system("read", 1, 2, 3, 4, 5, 6, 7)), { code: "ERR_INPUT" });
  });
});
