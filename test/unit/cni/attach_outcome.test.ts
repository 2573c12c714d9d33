import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { noteOutcome } from "../../../cni/status/attach_outcome.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { NetlinkError } from "../../../kernel/netlink/error.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { configurationOf, networkInput } from "../../support/cni/cni.ts";
import { fakeNode } from "../../support/cni/fake_node.ts";

const KINDS = ["attach", "full"] as const;

/** Failures of an ADD, and what is noted about them: the kind of the note and the cause, if anything is. */
const cases: readonly (readonly [Error, (typeof KINDS)[number]?, string?])[] = [
  [new DrawbridgeError("ERR_RANGE_EXHAUSTED", "x"), "full", "addresses"],
  [new NetlinkError("create veth", Errno.EXFULL), "full", "ports"],
  [new DrawbridgeError("ERR_UNAVAILABLE", "no free address (EXFULL)"), "attach", "daemon"],
  [new DrawbridgeError("ERR_PROTOCOL", "x"), "attach", "daemon"],
  [new DrawbridgeError("ERR_STORE", "policyd (EXFULL)"), "attach", "other"],
  [new TypeError("policyd"), "attach", "other"],
  [new NetlinkError("create veth", Errno.ENOMEM), "attach", "other"],
  [new DrawbridgeError("ERR_LOCK_TIMEOUT", "x"), "attach", "other"],
  [new DrawbridgeError("ERR_FOREIGN_OBJECT", "x"), "attach", "other"],
  [new DrawbridgeError("ERR_ADDRESS_UNAVAILABLE", "x")],
  [new DrawbridgeError("ERR_HOST_PORT_TAKEN", "x")],
  [new DrawbridgeError("ERR_POD_UNKNOWN", "x")],
  [new DrawbridgeError("ERR_DUPLICATE", "x")],
  [new DrawbridgeError("ERR_NAMESPACE", "x")],
];

describe("cni/status/attach_outcome", () => {
  const directory = useTemporaryDirectory();
  const place = (kind: string): string => `${directory()}/run/failures/${kind}/pods.json`;

  function outcome(error: Error | undefined, isForeignIpam = false): void {
    const attach = (): void => {
      if (error !== undefined) throw error;
    };
    const configuration = configurationOf(networkInput({ runDir: `${directory()}/run` }));
    const note = (): void => noteOutcome(fakeNode(directory()), configuration, attach, isForeignIpam);
    if (error === undefined) note();
    else assert.throws(note, error);
  }

  it("STATUS-05: failures of the node are noted with a cause by the error's code, those of a pod are not, and a success removes the notes (STATUS-01)", () => {
    for (const [error, kind, cause] of cases) {
      outcome(error);
      const noted = KINDS.filter((one) => existsSync(place(one)));
      assert.deepEqual(noted, kind === undefined ? [] : [kind], String(error));
      for (const one of noted)
        assert.partialDeepStrictEqual(JSON.parse(readFileSync(place(one), "utf8")), { cause, reason: error.message });
      outcome(undefined);
      assert.ok(!KINDS.some((one) => existsSync(place(one))));
    }
    outcome(new DrawbridgeError("ERR_STORE", "x"), true);
    assert.ok(!existsSync(place("attach")), "a failure of an IPAM plugin of others is not noted");
  });
});
