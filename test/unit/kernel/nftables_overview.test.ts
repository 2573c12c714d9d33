import assert from "node:assert/strict";
import { lowerRule } from "../../../kernel/nftables/encode/lowering.ts";
import { writtenMarkBits } from "../../../kernel/nftables/decode/overview.ts";
import { anyFlag, clearMarkBits, type Rule, rule, setMarkBit } from "../../../kernel/nftables/model/statement.ts";
import { instruction } from "../../../kernel/nftables/encode/instruction.ts";

const MARK = 3;
const REGISTER = 1;

function bitsOf(one: Rule): number {
  return writtenMarkBits(lowerRule(one, "inet", () => 1).instructions);
}

describe("kernel/nftables: the mark bits that rules write", () => {
  it("DOCTOR-01: a rule that sets or clears bits writes only these bits", () => {
    assert.equal(bitsOf(rule(setMarkBit(0x1000_0000))), 0x1000_0000);
    assert.equal(bitsOf(rule(clearMarkBits(0x8000_0001))), 0x8000_0001);
    assert.equal(bitsOf(rule(anyFlag("ct status", "snat"), setMarkBit(4), clearMarkBits(1))), 5);
  });

  it("DOCTOR-01: a rule that sets the whole mark writes all bits, and a rule that only reads the mark writes none", () => {
    const write = instruction("meta", { key: MARK, source: REGISTER });
    const load = instruction("meta", { key: MARK, target: REGISTER });
    const constant = instruction("immediate", { target: REGISTER, data: { value: new Uint8Array(4) } });
    const connection = instruction("ct", { target: REGISTER, key: 3 });
    assert.equal(writtenMarkBits([constant, write]), 0xffff_ffff);
    assert.equal(writtenMarkBits([load, connection, write]), 0xffff_ffff);
    assert.equal(writtenMarkBits([load]), 0);
    assert.equal(writtenMarkBits([]), 0);
  });

  it("DOCTOR-01: iptables' target MARK writes the bits of its mark and its mask", () => {
    const info = new Uint8Array(Uint32Array.of(0x4000, 0xc000).buffer);
    // NFTA_TARGET_NAME and NFTA_TARGET_INFO: length, number, payload.
    const data = Uint8Array.of(9, 0, 1, 0, 0x4d, 0x41, 0x52, 0x4b, 0, 0, 0, 0, 12, 0, 3, 0, ...info);
    assert.equal(writtenMarkBits([{ name: "target", data }]), 0xc000);
  });
});
