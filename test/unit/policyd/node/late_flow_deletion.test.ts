import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { LateFlowDeletion } from "../../../../policyd/node/late_flow_deletion.ts";

const [A, B] = [parseAddress("10.244.1.2"), parseAddress("fd00:244:1::3")];

function setUp() {
  const clock = new FakeClock();
  const forgotten: string[] = [];
  let answer: () => Promise<void> = () => Promise.resolve();
  let areRulesGone = true;
  const lateFlowDeletion = new LateFlowDeletion({
    clock,
    areRulesGone: () => Promise.resolve(areRulesGone),
    forget: (addresses) => {
      forgotten.push(addresses.map(formatAddress).join(" "));
      return answer();
    },
  });
  const pass = async (milliseconds: number): Promise<readonly string[]> => {
    for (let left = milliseconds; left > 0; left -= 100) {
      clock.pass(100);
      await turn();
    }
    return forgotten.splice(0);
  };
  return {
    lateFlowDeletion,
    pass,
    answerBy: (action: () => Promise<void>) => (answer = action),
    keepRules: (areKept: boolean) => (areRulesGone = !areKept),
  };
}

describe("policyd/node: the late deletion of a pod's flows", () => {
  it("POD-20: flows of pods that went are forgotten again half a second to a second later, for all of them together", async () => {
    const { lateFlowDeletion, pass } = setUp();
    lateFlowDeletion.add([A]);
    assert.deepEqual(await pass(400), []);
    lateFlowDeletion.add([B]);
    assert.deepEqual(await pass(500), [], "the second pod went too recently");
    assert.deepEqual(await pass(100), ["10.244.1.2 fd00:244:1::3"]);
    assert.deepEqual(await pass(5000), [], "once");
    lateFlowDeletion.add([A]);
    await pass(500);
    lateFlowDeletion.add([B]);
    assert.deepEqual([await pass(500), await pass(500)], [["10.244.1.2"], ["fd00:244:1::3"]]);
  });

  it("POD-20: an address that another pod has by then keeps its flows, some of which may be the first pod's", async () => {
    const { lateFlowDeletion, pass } = setUp();
    lateFlowDeletion.add([A]);
    assert.equal(lateFlowDeletion.end([A, B]), "unknown");
    assert.equal(lateFlowDeletion.end([A]), "none");
    lateFlowDeletion.add([A, B]);
    await pass(600);
    assert.equal(lateFlowDeletion.end([A]), "unknown");
    assert.deepEqual(await pass(1000), ["fd00:244:1::3"]);
  });

  it("POD-20: a pod that gets an address whose flows are being forgotten waits for the end of that", async () => {
    const { lateFlowDeletion, pass, answerBy } = setUp();
    const { promise, resolve } = Promise.withResolvers<void>();
    answerBy(() => promise);
    lateFlowDeletion.add([A]);
    await pass(1000);
    const outcomes: string[] = [];
    const paused = lateFlowDeletion.pauseFor([A]).then(() => outcomes.push(lateFlowDeletion.end([A])));
    await lateFlowDeletion.pauseFor([B]);
    await turn();
    assert.deepEqual(outcomes, []);
    resolve();
    await paused;
    assert.deepEqual(outcomes, ["none"]);
  });

  it("POD-20: a refusal of the kernel is retried, and until then the address counts as having flows", async () => {
    const { lateFlowDeletion, pass, answerBy } = setUp();
    answerBy(() => Promise.reject(new DrawbridgeError("ERR_NETLINK", "busy")));
    lateFlowDeletion.add([A]);
    lateFlowDeletion.add([B]);
    assert.deepEqual(await pass(1000), ["10.244.1.2 fd00:244:1::3"]);
    answerBy(() => Promise.resolve());
    assert.equal(lateFlowDeletion.end([B]), "unknown");
    assert.deepEqual(await pass(1000), ["10.244.1.2"]);
    assert.equal(lateFlowDeletion.end([A]), "none");
  });

  it("POD-20: flows are not forgotten while the rules of a pod that went are still in force", async () => {
    const { lateFlowDeletion, pass, keepRules } = setUp();
    keepRules(true);
    lateFlowDeletion.add([A]);
    assert.deepEqual(await pass(5000), []);
    keepRules(false);
    assert.deepEqual(await pass(1000), ["10.244.1.2"]);
  });
});
