import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { noteOutcome } from "../../../cni/status/attach_outcome.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { NetlinkError } from "../../../kernel/netlink/error.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { carryOut } from "../../../kernel/waiting.ts";
import { useTemporaryDirectory } from "../../support/address_store.ts";
import { configurationOf, networkInput } from "../../support/cni.ts";
import { fakeNode } from "../../support/fake_node.ts";

describe("cni/status/attach_outcome", () => {
  const directory = useTemporaryDirectory();

  function isNoted(error: Error, isForeignIpam = false): boolean {
    const runDir = `${directory()}/${Math.random()}`;
    // oxlint-disable-next-line require-yield -- it fails before it waits for anything
    function* fail(): Generator<never, void, void> {
      throw error;
    }
    const configuration = configurationOf(networkInput({ runDir }));
    assert.throws(() => carryOut(noteOutcome(fakeNode(directory()), configuration, fail(), isForeignIpam)), error);
    return existsSync(`${runDir}/failures/attach/pods.json`);
  }

  it("notes failures of the node and none of a pod, a full range or a full bridge (STATUS-01, STATUS-02)", () => {
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
    assert.ok(!isNoted(new DrawbridgeError("ERR_STORE", "x"), true), "of an IPAM plugin of others");
    for (const [error, expected] of failures)
      assert.equal(isNoted(error), expected, `${error.message} ${String(error)}`);
  });
});
