import assert from "node:assert/strict";
import { machineChanges, machineState } from "../../support/machine_state.ts";

describe("the machine's state before and after a test run", () => {
  it("has no difference when it is read twice", () => {
    assert.deepEqual(machineChanges(machineState(), machineState()), []);
    assert.ok(machineState().has("setting ipv4/ip_forward"));
  });

  it("differs by each file, link and table that came or went, and by each changed setting", () => {
    const before = new Map([
      ["link lo", ""],
      ["link cni0", ""],
      ["setting ipv4/ip_forward", "0"],
      ["setting ipv4/conf/cni0/rp_filter", "0"],
    ]);
    const after = new Map([
      ["link lo", ""],
      ["file /run/drawbridge/policyd.sock", ""],
      ["setting ipv4/ip_forward", "1"],
      ["setting bridge/bridge-nf-call-iptables", "1"],
    ]);
    assert.deepEqual(machineChanges(before, after), [
      "link cni0: gone",
      "setting ipv4/ip_forward: 1, before: 0",
      "file /run/drawbridge/policyd.sock: new",
    ]);
  });
});
