import assert from "node:assert/strict";
import { CniError, formatCniError, toCniError } from "../../../cni/error.ts";
import { DrawbridgeError, type ErrorCode } from "../../../kernel/error.ts";

describe("cni/error", () => {
  // Typed by ErrorCode, so that a new code without an entry here does not compile.
  const expected: Readonly<Record<ErrorCode, number>> = {
    ERR_ADDRESS: 7,
    ERR_CONFIGURATION: 7,
    ERR_SYSCALL: 105,
    ERR_NAMESPACE: 8,
    ERR_NETLINK: 105,
    ERR_NETLINK_MALFORMED: 105,
    ERR_NFTABLES_VALUE: 999,
    ERR_INPUT: 999,
    ERR_FOREIGN_OBJECT: 101,
    ERR_RANGE_EXHAUSTED: 102,
    ERR_ADDRESS_UNAVAILABLE: 103,
    ERR_DUPLICATE: 104,
    ERR_HOST_PORT_TAKEN: 106,
    ERR_POD_UNKNOWN: 11,
    ERR_LOCK_TIMEOUT: 11,
    ERR_STORE: 5,
    ERR_OBJECT: 7,
    ERR_PROTOCOL: 5,
    ERR_UNAVAILABLE: 11,
  };

  for (const code of Object.keys(expected).filter((key): key is ErrorCode => key in expected)) {
    it(`reports ${code} as ${expected[code]}, with its message and its own code`, () => {
      const error = toCniError(new DrawbridgeError(code, "what went wrong"));
      assert.deepEqual([error.code, error.message, error.details], [expected[code], "what went wrong", code]);
    });
  }

  const unknown: readonly (readonly [unknown, string])[] = [
    [new TypeError("x is not a function"), "x is not a function"],
    ["text", "text"],
    [undefined, "undefined"],
    [{ code: "ERR_STORE", message: "looks like one" }, "[object Object]"],
  ];
  for (const [thrown, message] of unknown) {
    it(`reports ${JSON.stringify(message)} of unknown origin as 999 without a stack (P15)`, () => {
      const error = toCniError(thrown);
      assert.deepEqual([error.code, error.message], [999, message]);
      assert.doesNotMatch(formatCniError(error, "1.1.0"), /\bat \S+:\d+|error\.test\.ts/);
    });
  }

  it("prints version, code and message, and details only if there are any", () => {
    assert.deepEqual(JSON.parse(formatCniError(new CniError(7, "m"), "1.1.0")), {
      cniVersion: "1.1.0",
      code: 7,
      msg: "m",
    });
    assert.deepEqual(JSON.parse(formatCniError(new CniError(7, 'a "b"\n', "d"), "1.1.0")), {
      cniVersion: "1.1.0",
      code: 7,
      msg: 'a "b"\n',
      details: "d",
    });
  });
});
