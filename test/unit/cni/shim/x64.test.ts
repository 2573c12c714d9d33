import assert from "node:assert/strict";
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
import { encodeX64 } from "../../../../cni/shim/x64.ts";

function machineCode(...operations: readonly Operation[]): string {
  return Buffer.from(assemble(operations, encodeX64, () => 0x412340)).toString("hex");
}

/** Each operation with the text that objdump prints for its bytes. */
const cases: readonly (readonly [string, Operation, string])[] = [
  ["mov rbx, rsp", initialStack("stack"), "4889e3"],
  ["mov rbp, rax", set("file", "result"), "4889c5"],
  ["mov r12, r13", set("total", "socket"), "4d89ec"],
  ["mov r15d, 5", set("left", 5), "41bf05000000"],
  ["mov rbp, -100", set("file", -100), "48c7c59cffffff"],
  ["mov r14d, 0xffffffff", set("cursor", 0xffffffff), "41beffffffff"],
  ["mov r14d, 0x412344", set("cursor", address("x", 4)), "41be44234100"],
  ["add r14, 1", add("cursor", 1), "4981c601000000"],
  ["add r14, -1", add("cursor", -1), "4981c6ffffffff"],
  ["add r15, r15", add("left", "left"), "4d01ff"],
  ["add r12, rax", add("total", "result"), "4901c4"],
  ["sub r15, rax", subtract("left", "result"), "4929c7"],
  ["sub r12, 8", subtract("total", 8), "4981ec08000000"],
  ["movzx r15d, byte [r14]", load(1, "left", at("cursor")), "450fb6be00000000"],
  ["mov ebp, [rbx+4]", load(4, "file", at("stack", 4)), "408bab04000000"],
  ["mov rax, [r12+16], by SIB", load(8, "result", at("total", 16)), "498b842410000000"],
  ["movzx eax, byte [0x412341]", load(1, "result", address("x", 1)), "41bb41234100410fb68300000000"],
  ["mov [r12+3], al, by SIB", store(1, at("total", 3), "result"), "4188842403000000"],
  ["mov [r14], bpl, not ch", store(1, at("cursor"), "file"), "4188ae00000000"],
  ["mov [0x412354], eax", store(4, address("x", 20), "result"), "41bb5423410041898300000000"],
  ["mov [r15+8], rbx", store(8, at("left", 8), "stack"), "49899f08000000"],
];

describe("cni/shim/x64", () => {
  for (const [text, operation, expected] of cases)
    it(`encodes ${text}`, () => {
      assert.equal(machineCode(operation), expected);
    });

  it("a jump counts from the instruction after it, back and forth", () => {
    assert.equal(machineCode(label("a"), jump("a"), jump("b"), label("b")), "e9fbffffff" + "e900000000");
  });

  const comparisons = { "==": "84", "!=": "85", "<": "8c", ">=": "8d", "<=": "8e", ">": "8f" } as const;
  for (const [comparison, code] of Object.entries(comparisons))
    it(`jumps if ${comparison}, in a signed comparison`, () => {
      const operation = jumpIf("result", comparison as keyof typeof comparisons, -4, "a");
      assert.equal(machineCode(label("a"), operation), `4881f8fcffffff0f${code}f3ffffff`);
    });

  it("a comparison with a register and with an address is encoded", () => {
    assert.equal(machineCode(label("a"), jumpIf("result", "!=", "left", "a")), "4c39f8" + "0f85f7ffffff");
    assert.equal(machineCode(label("a"), jumpIf("cursor", "<=", address("x"), "a")), "4981fe40234100" + "0f8ef3ffffff");
  });

  it("arguments are set in their order and the call's number last, so any argument can be the last result", () => {
    assert.equal(
      machineCode(system("recvfrom", -1, "socket", 3, 4, 5, "result")),
      "48c7c7ffffffff" +
        "4c89ee" +
        "40ba03000000" +
        "41ba04000000" +
        "41b805000000" +
        "4989c1" +
        "40b82d000000" +
        "0f05",
    );
  });

  it("numbers that an instruction does not hold, missing or repeated labels, and a seventh argument are refused", () => {
    for (const operation of [set("left", 2 ** 32), set("left", -(2 ** 31) - 1), add("left", 2 ** 31), set("left", 0.5)])
      assert.throws(() => machineCode(operation), { code: "ERR_INPUT", message: /which x86-64 encodes/ });
    assert.throws(() => machineCode(jump("a")), { code: "ERR_INPUT", message: /"a" is nowhere/ });
    assert.throws(() => machineCode(label("a"), label("a")), { code: "ERR_INPUT", message: /"a" is there twice/ });
    assert.throws(() => machineCode(system("read", 1, 2, 3, 4, 5, 6, 7)), { code: "ERR_INPUT" });
  });
});
