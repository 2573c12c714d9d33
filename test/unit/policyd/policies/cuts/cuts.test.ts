import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { type Address, formatAddress, parseAddress } from "../../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { DesiredElement } from "../../../../../policyd/ruleset/desired/desired_element.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { ALLOWED_LABEL } from "../../../../../policyd/policies/compile/policy_table.ts";
import { Cuts } from "../../../../../policyd/policies/cuts/cuts.ts";
import type { FoundPolicies } from "../../../../../policyd/policies/cuts/startup_rules.ts";
import type { ChangedVerdicts } from "../../../../../policyd/policies/live/policy_follower.ts";
import { FakeFlows, LABELLED } from "../../../../support/policy/cuts/fake_flows.ts";

const POD = "10.244.1.2";
const OTHER_POD = "10.244.1.3";
const OUTSIDE = "198.51.100.7";

function setUp(options: { readonly policyReset?: boolean; readonly found?: Partial<FoundPolicies> } = {}) {
  const flows = new FakeFlows();
  const clock = new FakeClock();
  const claims = new Map<string, readonly DesiredElement[]>();
  const journal: string[] = [];
  /** Sources whose flows are denied. */
  const denied = new Set<string>();
  const state = { isSettled: true };
  const logger = recordingLogger();
  const cuts = new Cuts({
    flows,
    evaluatorOf:
      () =>
      ({ source, destination }) => {
        if (!isPod(source) && !isPod(destination)) return "not ours";
        return denied.has(formatAddress(source)) ? "denied" : "allowed";
      },
    isSettled: () => state.isSettled,
    ruleset: {
      claim: (owner, wanted) => {
        if (wanted.length === 0) claims.delete(owner);
        else claims.set(owner, wanted);
      },
    },
    opening: {
      read: () => ({ isInForce: true, cut: [], settled: [], ...options.found }),
      open: () => void journal.push("open"),
    },
    clock,
    logger,
    policyReset: options.policyReset === true,
  });
  /** Lets time pass, and carries out what becomes due. */
  const pass = async (milliseconds: number): Promise<void> => {
    const step = Math.max(50, milliseconds / 50);
    for (let left = milliseconds; left >= 0; left -= step) {
      clock.pass(Math.min(left, step));
      for (let turns = 0; turns < 20; turns++) await turn();
    }
  };
  const passes = (id: number): boolean => flows.has(id, ALLOWED_LABEL);
  const numbers = (set: string): readonly unknown[] =>
    [...claims.values()].flat().flatMap((claim) => (claim.set === set ? claim.element.key : []));
  return { flows, cuts, denied, state, claims, journal, logger, clock, pass, passes, numbers };
}

function isPod(address: Address): boolean {
  return formatAddress(address).startsWith("10.244.1.");
}

/** The changed verdicts of these addresses, all of which have flows. */
function of(...texts: readonly string[]): ChangedVerdicts {
  const addresses = new Set(texts.map((text) => parseAddress(text)));
  return { addresses, withFlows: addresses };
}

describe("policy/cuts: rounds", () => {
  it("POL-81: for few addresses only their flows are read from the kernel, unless other flows are known by number", async () => {
    const { flows, cuts, denied, pass, passes } = setUp({ found: { settled: [9] } });
    for (let id = 1; id <= 5; id++) flows.put({ id, from: OTHER_POD, to: OUTSIDE, labels: LABELLED });
    flows.put({ id: 6, from: OUTSIDE, to: POD, labels: LABELLED });
    denied.add(OUTSIDE);
    cuts.verdictsChanged(of(POD));
    await pass(1000);
    assert.deepEqual([flows.reported, flows.walks, passes(6)], [2, 2, false]);
    flows.put({ id: 9, from: OTHER_POD, to: OUTSIDE, hasRoom: false });
    await cuts.prepare();
    cuts.verdictsChanged(of(POD));
    await pass(1000);
    assert.equal(flows.reported, 2 + 2 * 7);
  });

  it("POL-81: a label that a packet set during a cut is removed by the second pass", async () => {
    const { flows, cuts, denied, pass, passes } = setUp();
    flows.put({ id: 1, from: POD, to: OUTSIDE, labels: LABELLED });
    denied.add(POD);
    cuts.verdictsChanged(of(POD));
    await pass(100);
    assert.deepEqual([passes(1), flows.walks], [false, 1]);
    flows.label(1, ALLOWED_LABEL);
    await pass(1000);
    assert.deepEqual([passes(1), flows.walks], [false, 2]);
    await pass(100_000);
    assert.equal(flows.walks, 2, "there is no third pass");
  });

  it("POL-81: a connection that was checked by a change which is undone before it is in force is checked again", async () => {
    const { flows, cuts, denied, state, pass, passes } = setUp();
    flows.put({ id: 1, from: POD, to: OUTSIDE, labels: LABELLED });
    denied.add(POD);
    cuts.verdictsChanged(of(POD));
    await pass(100);
    assert.equal(passes(1), false);
    // The connection is allowed again, and compiling that takes two seconds: the second pass is ahead of the rules.
    denied.clear();
    state.isSettled = false;
    await pass(2000);
    denied.add(POD);
    state.isSettled = true;
    await pass(1000);
    assert.equal(passes(1), false);
    const { walks } = flows;
    await pass(100_000);
    assert.equal(flows.walks, walks, "no further pass");
  });

  it("POL-81: rounds never overlap, and changes during a round are checked by the next", async () => {
    const { flows, cuts, denied, pass, passes } = setUp();
    for (let id = 1; id <= 5; id++) flows.put({ id, from: POD, to: OUTSIDE, labels: LABELLED });
    flows.put({ id: 6, from: OTHER_POD, to: OUTSIDE, labels: LABELLED });
    let changes = 0;
    flows.onTurn = () => {
      if (changes++ > 3) return;
      denied.add(POD).add(OTHER_POD);
      cuts.verdictsChanged(of(POD, OTHER_POD));
    };
    cuts.verdictsChanged(of(POD));
    await pass(2000);
    assert.ok([1, 2, 3, 4, 5, 6].every((id) => !passes(id)));
    assert.equal(cuts.status().cut, 6);
  });

  it("POL-84: under endless changes, rounds take at most an eighth of the time, and each change is checked within 100 ms", async () => {
    const { flows, cuts, denied, clock, passes } = setUp();
    flows.put({ id: 1, from: POD, to: OUTSIDE, labels: LABELLED });
    flows.onTurn = () => clock.pass(8);
    let waited = 0;
    const began = clock.now();
    for (let change = 0; clock.now() < began + 2000; change++) {
      const isDenied = change % 2 === 0;
      if (isDenied) denied.add(POD);
      else denied.clear();
      const changed = clock.now();
      do {
        // A change of another connection keeps its rounds going.
        cuts.verdictsChanged(of(POD, OTHER_POD));
        clock.pass(2);
        for (let turns = 0; turns < 5; turns++) await turn();
      } while (passes(1) === isDenied && clock.now() < changed + 1000);
      waited = Math.max(waited, clock.now() - changed);
    }
    assert.ok(waited > 0 && waited <= 100, `${waited} ms`);
    const taken = clock.now() - began;
    assert.ok(flows.walks <= taken / 64 + 1, `${flows.walks} rounds of 8 ms in ${taken} ms`);
  });

  it("POL-84: after a long round, a change of the same connection waits seven times as long, and one of another pod's only as long", async () => {
    const { flows, cuts, denied, clock, passes } = setUp();
    flows.put({ id: 1, from: POD, to: OUTSIDE, labels: LABELLED });
    flows.put({ id: 2, from: OTHER_POD, to: OUTSIDE, labels: LABELLED });
    flows.onTurn = () => clock.pass(50);
    const pass = async (milliseconds: number): Promise<void> => {
      clock.pass(milliseconds);
      for (let turns = 0; turns < 20; turns++) await turn();
    };
    cuts.verdictsChanged(of(POD));
    await pass(0);
    denied.add(POD).add(OTHER_POD);
    cuts.verdictsChanged(of(POD));
    await pass(600);
    assert.deepEqual([flows.walks, passes(1), passes(2)], [1, true, true], "the round took 100 ms");
    cuts.verdictsChanged(of(POD, OTHER_POD));
    await pass(0);
    assert.deepEqual([flows.walks, passes(1), passes(2)], [2, false, false]);
  });

  it("POL-81: a round that the kernel refuses is reported and retried", async () => {
    const { flows, cuts, denied, logger, pass, passes } = setUp();
    flows.put({ id: 1, from: OTHER_POD, to: OUTSIDE, labels: LABELLED });
    flows.put({ id: 2, from: POD, to: OUTSIDE, labels: LABELLED });
    denied.add(POD);
    flows.refusals = 2;
    cuts.verdictsChanged(of(POD));
    await pass(0);
    assert.equal(passes(2), true);
    assert.deepEqual(cuts.problems(), ["live connections do not follow the policies: no answer"]);
    await pass(2000);
    assert.deepEqual([passes(2), cuts.status().failures, cuts.problems().length], [false, 2, 0]);
    assert.deepEqual(logger.lines.at(-1)?.fields, { cut: 1, restored: 0 });
  });

  it("POL-81: the pause doubles with each refusal of a round", async () => {
    const { flows, cuts, pass } = setUp();
    flows.put({ id: 1, from: POD, to: OUTSIDE, labels: LABELLED });
    flows.refusals = 4;
    cuts.verdictsChanged(of(POD));
    await pass(300);
    // At once, after 50 ms and after 100 more; the next one comes 200 ms later.
    assert.equal(flows.walks, 3);
  });

  it("POL-81: after a round through all flows, a change of one address asks for its flows only", async () => {
    const { flows, cuts, pass } = setUp();
    for (let id = 1; id <= 5; id++) flows.put({ id, from: OTHER_POD, to: OUTSIDE, labels: LABELLED });
    flows.put({ id: 6, from: POD, to: OUTSIDE, labels: LABELLED });
    cuts.verdictsChanged({ ...of(POD), withFlows: "all" });
    await pass(1000);
    assert.deepEqual([flows.walks, flows.reported], [2, 12]);
    cuts.verdictsChanged(of(POD));
    await pass(1000);
    assert.deepEqual([flows.walks, flows.reported], [4, 14]);
  });

  it("POL-82: at the first table a connection with room for labels gets one, and a denied one is reset; no round begins meanwhile", async () => {
    const { flows, cuts, denied, journal, pass, passes, numbers } = setUp({
      policyReset: true,
      found: { isInForce: false },
    });
    flows.put({ id: 1, from: POD, to: OUTSIDE });
    flows.put({ id: 2, from: OTHER_POD, to: OUTSIDE });
    denied.add(OTHER_POD);
    flows.onTurn = () => cuts.verdictsChanged(of(POD));
    const prepared = cuts.prepare();
    await pass(100);
    await prepared;
    flows.onTurn = () => {};
    assert.deepEqual([journal[0], passes(1), passes(2), numbers("cut")], ["open", true, false, [2]]);
  });

  it("POL-82 POL-83: the number of a connection that two walks have not met leaves its set", async () => {
    const { flows, cuts, pass, numbers } = setUp({ policyReset: true, found: { settled: [8], cut: [9] } });
    flows.put({ id: 1, from: POD, to: OUTSIDE, labels: LABELLED });
    await cuts.prepare();
    assert.deepEqual([numbers("settled"), numbers("cut")], [[8], [9]]);
    cuts.verdictsChanged(of(POD));
    await pass(1000);
    const { settled, reset } = cuts.status();
    assert.deepEqual([settled, reset, numbers("settled"), numbers("cut")], [0, 0, [], []]);
  });
});
