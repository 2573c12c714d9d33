import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { noteOutcome } from "../../../cni/status/attach_outcome.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { NetlinkError } from "../../../kernel/netlink/error.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { configurationOf, networkInput } from "../../support/cni/cni.ts";
import { fakeNode } from "../../support/cni/fake_node.ts";

describe("cni/status/attach_outcome", () => {
  const directory = useTemporaryDirectory();

  function isNoted(error: Error, isForeignIpam = false): boolean {
    const runDir = `${directory()}/${Math.random()}`;
    const fail = (): never => {
      throw error;
    };
    const configuration = configurationOf(networkInput({ runDir }));
    assert.throws(() => noteOutcome(fakeNode(directory()), configuration, fail, isForeignIpam), error);
    return existsSync(`${runDir}/failures/attach/pods.json`);
  }

  it("STATUS-05: the cause of a failure is noted by the error's code, whatever its text is, and the first success removes all notes", () => {
    const cases: readonly (readonly [Error, "attach" | "full", string])[] = [
      [new DrawbridgeError("ERR_RANGE_EXHAUSTED", "x"), "full", "addresses"],
      [new NetlinkError("create veth", Errno.EXFULL), "full", "ports"],
      [new DrawbridgeError("ERR_UNAVAILABLE", "no free address (EXFULL)"), "attach", "daemon"],
      [new DrawbridgeError("ERR_PROTOCOL", "x"), "attach", "daemon"],
      [new DrawbridgeError("ERR_STORE", "policyd (EXFULL)"), "attach", "other"],
      [new TypeError("policyd"), "attach", "other"],
    ];
    const runDir = `${directory()}/causes`;
    const configuration = configurationOf(networkInput({ runDir }));
    const outcome = (attach: () => void): void => noteOutcome(fakeNode(directory()), configuration, attach, false);
    for (const [error, kind, cause] of cases) {
      const fail = (): never => {
        throw error;
      };
      assert.throws(() => outcome(fail), error);
      const noted = JSON.parse(readFileSync(`${runDir}/failures/${kind}/pods.json`, "utf8")) as Record<string, unknown>;
      assert.deepEqual([noted["cause"], noted["reason"]], [cause, error.message]);
    }
    outcome(() => {});
    for (const kind of ["attach", "full"]) assert.ok(!existsSync(`${runDir}/failures/${kind}/pods.json`), kind);
  });

  it("failures of the node are noted, and those of a pod, a full range or a full bridge are not (STATUS-01)", () => {
    const failures: readonly (readonly [Error, boolean])[] = [
      [new NetlinkError("create veth", Errno.ENOMEM), true],
      [new NetlinkError("create veth", Errno.EXFULL), false],
      [new DrawbridgeError("ERR_STORE", "x"), true],
      [new DrawbridgeError("ERR_UNAVAILABLE", "x"), true],
      [new DrawbridgeError("ERR_LOCK_TIMEOUT", "x"), true],
      [new DrawbridgeError("ERR_FOREIGN_OBJECT", "x"), true],
      [new TypeError("x"), true],
      [new DrawbridgeError("ERR_RANGE_EXHAUSTED", "x"), false],
      [new DrawbridgeError("ERR_ADDRESS_UNAVAILABLE", "x"), false],
      [new DrawbridgeError("ERR_HOST_PORT_TAKEN", "x"), false],
      [new DrawbridgeError("ERR_DUPLICATE", "x"), false],
      [new DrawbridgeError("ERR_NAMESPACE", "x"), false],
    ];
    assert.ok(
      !isNoted(new DrawbridgeError("ERR_STORE", "x"), true),
      "a failure of an IPAM plugin of others is not noted",
    );
    for (const [error, expected] of failures)
      assert.equal(isNoted(error), expected, `${error.message} ${String(error)}`);
  });
});
