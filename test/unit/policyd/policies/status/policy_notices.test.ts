import assert from "node:assert/strict";
import { recordingNotices } from "../../../../support/recording_notices.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { MOST_PAIRS } from "../../../../../policyd/policies/policy_size.ts";
import { CLOSED_POLICY, OMITTED } from "../../../../../policyd/policies/live/closed_policies.ts";
import { PolicyNotices } from "../../../../../policyd/policies/status/policy_notices.ts";
import type { ObjectChange } from "../../../../../objects/model.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";

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

/** Returns notices, and the policies that are restricted, with the reasons of each. */
function setUp(isEnforced = true) {
  const logger = recordingLogger();
  const events = recordingNotices();
  let restricted: Readonly<Record<string, readonly string[]>> = {};
  const restrictions = () => new Map(Object.entries(restricted).map(([key, reasons]) => [key, new Set(reasons)]));
  const notices = new PolicyNotices({ logger, events, isEnforced, restrictions });
  const inForce = (now: typeof restricted): void => {
    restricted = now;
    for (let batch = 0; batch < 2; batch++) notices.rulesInForce();
  };
  return { logger, events, notices, inForce };
}

describe("policyd/policies: notices about policies", () => {
  it("EVENT-07 POL-73: a policy that cannot be compiled is reported once while it is so, in the log, an Event, the status and a metric", () => {
    const { logger, events, notices } = setUp();
    notices.apply(changesOf(tooLarge("c")));
    notices.apply(changesOf(tooLarge("c")));
    assert.equal(logger.lines.length, 1);
    assert.deepEqual(logger.namespaces, ["x"], "the line is paced in its author's namespace (SHARE-06)");
    const [line] = logger.lines;
    assert.deepEqual([line?.level, line?.fields["policy"]], ["warn", "x/c"]);
    assert.match(String(line?.fields["reason"]), /^ingress: \d+ pairs .* the pods are isolated/);
    assert.equal(notices.problems().length, 1);
    assert.match(notices.problems()[0] ?? "", /^NetworkPolicy x\/c: ingress: /);
    const told = events.notices.map(({ regarding: { kind, key, uid }, reason }) => [kind, key, uid, reason]);
    assert.deepEqual(told, [["NetworkPolicy", "x/c", "uid-c", "PolicyNotInForce"]]);
    assert.equal(notices.states().restricted, 1);
    notices.apply(changesOf(policy("c")));
    assert.deepEqual(notices.problems(), []);
    notices.apply(changesOf(tooLarge("c")));
    assert.equal(logger.lines.length, 2);
    notices.apply([{ type: "delete", kind: "NetworkPolicy", key: "x/c" }]);
    assert.deepEqual(notices.states(), { enforced: 0, restricted: 0, shadow: 0, off: 0 });
  });

  it("EVENT-07 POL-73 POL-93: a restricted policy gets one Event for each reason when that is in force, and another if it recurs", () => {
    const { logger, events, notices, inForce } = setUp();
    notices.apply(changesOf(policy("a"), policy("b"), policy("c")));
    inForce({});
    assert.equal(events.notices.length, 0);
    inForce({ "x/c": [OMITTED] });
    assert.deepEqual(
      events.notices.map(({ regarding, reason }) => [regarding.key, reason]),
      [["x/c", "PolicyNotInForce"]],
    );
    const [{ note } = assert.fail()] = events.notices;
    assert.match(note, /^NetworkPolicy x\/c: the policies of some pods come to more than 8192 pairs/);
    assert.equal(logger.lines.length, 1);
    assert.deepEqual(notices.states(), { enforced: 2, restricted: 1, shadow: 0, off: 0 });
    inForce({});
    assert.deepEqual(notices.states(), { enforced: 3, restricted: 0, shadow: 0, off: 0 });
    assert.equal(events.notices.length, 1);
    inForce({ "x/b": [CLOSED_POLICY], "x/c": [OMITTED, CLOSED_POLICY] });
    const recurring = events.notices.slice(1).map((one) => one.note);
    assert.deepEqual(
      [recurring.length, recurring.filter((one) => /: too many pairs of a selected pod's address/.test(one)).length],
      [3, 2],
    );
    assert.equal(notices.states().restricted, 2);
  });

  it("POL-70: an annotation without effect is reported, and the policy is in force", () => {
    const { logger, notices } = setUp();
    notices.apply(changesOf(policy("a", {}, "yes"), policy("b", {}, "false")));
    assert.deepEqual(
      logger.lines.map(({ fields }) => fields),
      [{ policy: "x/a", reason: 'drawbridge.dev/shadow: "yes" is not "true": the policy is in force' }],
    );
    assert.equal(notices.states().enforced, 2);
  });
});
