import assert from "node:assert/strict";
import { recordingNotices } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { MOST_PAIRS } from "../../../../policyd/policies/policy_size.ts";
import { CLOSED_POLICY } from "../../../../policyd/policies/live/closed_policies.ts";
import { OMITTED, PolicyNotices, type Restriction } from "../../../../policyd/policies/policy_notices.ts";
import type { ObjectChange } from "../../../../objects/model.ts";
import { storeOf } from "../../../support/evaluate/store.ts";

function policy(name: string, spec: object = {}, shadow?: string): object {
  const annotations = shadow === undefined ? {} : { "drawbridge.dev/shadow": shadow };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace: "x", uid: `uid-${name}`, annotations },
    spec: { podSelector: {}, ...spec },
  };
}

/** A policy with more pairs of a peer and a port than are compiled. */
function tooLarge(name: string): object {
  const size = Math.ceil(Math.sqrt(MOST_PAIRS)) + 1;
  const from = Array.from({ length: size }, (_, i) => ({ podSelector: { matchLabels: { app: `a${i}` } } }));
  const ports = Array.from({ length: size }, (_, i) => ({ port: i + 1 }));
  return policy(name, { ingress: [{ from, ports }] });
}

function changesOf(...manifests: readonly object[]): readonly ObjectChange[] {
  return [...storeOf(manifests).networkPolicies.values()].map((object) => ({
    type: "set",
    kind: object.kind,
    key: object.key,
    object,
  }));
}

function setUp(isEnforced = true, restrictions: readonly Restriction[] = []) {
  const logger = recordingLogger();
  const events = recordingNotices();
  return { logger, events, notices: new PolicyNotices({ logger, events, isEnforced, restrictions }) };
}

describe("policyd/policies: notices about policies", () => {
  it("POL-73: a policy that cannot be compiled is reported once while it is so, in the log, the status and a metric", () => {
    const { logger, notices } = setUp();
    notices.apply(changesOf(tooLarge("c")));
    notices.apply(changesOf(tooLarge("c")));
    assert.equal(logger.lines.length, 1);
    assert.deepEqual(logger.namespaces, ["x"], "the line is paced in its author's namespace (SHARE-06)");
    const [line] = logger.lines;
    assert.deepEqual([line?.level, line?.fields["policy"]], ["warn", "x/c"]);
    assert.match(String(line?.fields["reason"]), /^ingress: \d+ pairs .* the pods are isolated/);
    assert.equal(notices.problems().length, 1);
    assert.match(notices.problems()[0] ?? "", /^NetworkPolicy x\/c: ingress: /);
    assert.equal(notices.states().restricted, 1);
    notices.apply(changesOf(policy("c")));
    assert.deepEqual(notices.problems(), []);
    notices.apply(changesOf(tooLarge("c")));
    assert.equal(logger.lines.length, 2);
    notices.apply([{ type: "delete", kind: "NetworkPolicy", key: "x/c" }]);
    assert.deepEqual(notices.states(), { enforced: 0, restricted: 0, shadow: 0, off: 0 });
  });

  it("EVENT-07 POL-73: a policy that cannot be compiled gets one Event, also when another such one replaces it", () => {
    const { events, notices } = setUp();
    notices.apply(changesOf(policy("a"), tooLarge("c")));
    notices.apply(changesOf(tooLarge("c")));
    assert.equal(events.notices.length, 1);
    const [{ regarding, reason, note } = assert.fail()] = events.notices;
    assert.deepEqual(
      [regarding.kind, regarding.key, regarding.uid, reason],
      ["NetworkPolicy", "x/c", "uid-c", "PolicyNotInForce"],
    );
    assert.match(note, /^NetworkPolicy x\/c: ingress: \d+ pairs .* the pods are isolated/);
    const off = setUp(false);
    off.notices.apply(changesOf(tooLarge("c")));
    assert.deepEqual(off.events.notices, []);
  });

  it("EVENT-07 POL-73: a policy that is omitted after others gets one Event when that is in force, and another if it recurs", () => {
    const omitted = new Map<string, number>();
    const { logger, events, notices } = setUp(true, [{ policies: () => omitted, reason: OMITTED }]);
    notices.apply(changesOf(policy("a"), policy("c")));
    notices.rulesInForce();
    assert.equal(events.notices.length, 0);
    const put = (isOmitted: boolean): void => {
      if (isOmitted) omitted.set("x/c", 1);
      else omitted.delete("x/c");
      for (let batch = 0; batch < 2; batch++) notices.rulesInForce();
    };
    put(true);
    assert.deepEqual(
      events.notices.map(({ regarding, reason }) => [regarding.key, reason]),
      [["x/c", "PolicyNotInForce"]],
    );
    assert.match(
      events.notices[0]?.note ?? "",
      /^NetworkPolicy x\/c: the policies of some pods come to more than 8192 pairs/,
    );
    assert.equal(logger.lines.length, 1);
    assert.deepEqual(notices.states(), { enforced: 1, restricted: 1, shadow: 0, off: 0 });
    put(false);
    assert.deepEqual(notices.states(), { enforced: 2, restricted: 0, shadow: 0, off: 0 });
    assert.equal(events.notices.length, 1);
    put(true);
    assert.equal(events.notices.length, 2);
  });

  it("EVENT-07 POL-93: a policy whose sets are too large gets one Event while it is so, beside one that is omitted", () => {
    const closed = new Set<string>();
    const { events, notices } = setUp(true, [
      { policies: () => new Map([["x/a", 1]]), reason: OMITTED },
      { policies: () => closed, reason: CLOSED_POLICY },
    ]);
    notices.apply(changesOf(policy("a"), policy("b"), policy("c")));
    closed.add("x/b");
    for (let batch = 0; batch < 2; batch++) notices.rulesInForce();
    assert.deepEqual(
      events.notices.map(({ regarding, reason }) => [regarding.key, reason]),
      [
        ["x/a", "PolicyNotInForce"],
        ["x/b", "PolicyNotInForce"],
      ],
    );
    assert.match(events.notices[1]?.note ?? "", /^NetworkPolicy x\/b: too many pairs of a selected pod's address/);
    assert.deepEqual(notices.states(), { enforced: 1, restricted: 2, shadow: 0, off: 0 });
    closed.clear();
    notices.rulesInForce();
    assert.equal(notices.states().restricted, 1);
    closed.add("x/b");
    notices.rulesInForce();
    assert.equal(events.notices.length, 3);
  });

  it("POL-71: an annotation without effect is reported, and the policy is in force", () => {
    const { logger, notices } = setUp();
    notices.apply(changesOf(policy("a", {}, "yes"), policy("b", {}, "false")));
    assert.deepEqual(
      logger.lines.map(({ fields }) => fields),
      [{ policy: "x/a", reason: 'drawbridge.dev/shadow: "yes" is not "true": the policy is in force' }],
    );
    assert.equal(notices.states().enforced, 2);
  });
});
