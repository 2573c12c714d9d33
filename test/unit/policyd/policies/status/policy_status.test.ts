import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { ClusterObject } from "../../../../../objects/model.ts";
import { recordingNotices } from "../../../../support/recording_notices.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { PolicyNotices } from "../../../../../policyd/policies/status/policy_notices.ts";
import {
  packetsByPolicy,
  parseReportLine,
  policyReporter,
  type ReportedPolicy,
  reportLine,
  reportPage,
} from "../../../../../policyd/policies/status/policy_report.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";

function policy(name: string, generation: number): ClusterObject {
  const [object] = storeOf([
    {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name, namespace: "shop", generation },
      spec: { podSelector: {} },
    },
  ]).networkPolicies.values();
  return object ?? assert.fail();
}

const KNOWN = { name: "api.example.com", address: parseAddress("2001:db8::7"), pod: "shop/web", seconds: 60 };

const set = (object: ClusterObject) => ({ type: "set", kind: object.kind, key: object.key, object }) as const;

function noticesWith(progress: ConstructorParameters<typeof PolicyNotices>[0]["progress"]): PolicyNotices {
  const parts = { logger: recordingLogger(), events: recordingNotices(), isEnforced: progress !== undefined };
  return new PolicyNotices(progress === undefined ? parts : { ...parts, progress });
}

describe("policyd/policies/status", () => {
  it("PSTATUS-01: a policy's generation is in force when the kernel has all rules, and the one before until then", () => {
    const clock = new FakeClock();
    let isInForce = false;
    const progress = noticesWith({ clock, isInForce: () => isInForce });
    const now = () => progress.all().map(({ key, generation, inForce, since }) => [key, generation, inForce, since]);
    progress.apply([set(policy("a", 1))]);
    clock.pass(1000);
    assert.deepEqual(now(), [["shop/a", 1, undefined, undefined]], "nothing is in force before all objects are read");
    progress.synced();
    clock.pass(100);
    assert.deepEqual(now(), [["shop/a", 1, undefined, undefined]]);
    isInForce = true;
    clock.pass(20);
    const first = clock.time();
    assert.deepEqual(now(), [["shop/a", 1, 1, first]]);
    isInForce = false;
    progress.apply([set(policy("a", 2)), set(policy("b", 1))]);
    clock.pass(500);
    assert.deepEqual(now(), [
      ["shop/a", 2, 1, first],
      ["shop/b", 1, undefined, undefined],
    ]);
    isInForce = true;
    clock.pass(20);
    assert.deepEqual(now(), [
      ["shop/a", 2, 2, clock.time()],
      ["shop/b", 1, 1, clock.time()],
    ]);
    progress.apply([{ type: "delete", kind: "NetworkPolicy", key: "shop/a" }, set(policy("b", 1))]);
    assert.deepEqual(
      now(),
      [["shop/b", 1, undefined, undefined]],
      "policy b is not in force again, since its annotations may have changed",
    );
  });

  it("PSTATUS-01: a daemon without policies reports none as in force, and runs no timer", () => {
    const clock = new FakeClock();
    const progress = noticesWith(undefined);
    progress.apply([set(policy("a", 1))]);
    progress.synced();
    assert.equal(clock.pending, 0);
    assert.deepEqual(
      progress.all().map(({ inForce }) => inForce),
      [undefined],
    );
  });

  it("PSTATUS-01: no check is scheduled after the last policy that is not in force yet is deleted", () => {
    const clock = new FakeClock();
    const progress = noticesWith({ clock, isInForce: () => false });
    progress.synced();
    progress.apply([set(policy("a", 1))]);
    progress.apply([{ type: "delete", kind: "NetworkPolicy", key: "shop/a" }]);
    clock.pass(100);
    assert.equal(clock.pending, 0);
  });

  const reported = (key: string, fields: Partial<ReportedPolicy> = {}): ReportedPolicy => ({
    kind: "NetworkPolicy",
    key,
    generation: 3,
    inForce: 2,
    since: Date.UTC(2026, 0, 2, 3, 4, 5),
    state: "enforced",
    problems: [],
    rules: [{ direction: "ingress", rule: 0, packets: 7 }],
    names: [],
    ...fields,
  });

  it("FLOW-09: a report of any size is read in parts, each policy once", () => {
    const all = Array.from({ length: 500 }, (_, i) => reported(`shop/p${String(i).padStart(3, "0")}`));
    const lines: string[] = [];
    let after: string | undefined;
    let parts = 0;
    do {
      const page = reportPage(all, after);
      assert.ok(page.lines.length <= 9000, `${page.lines.length}`);
      lines.push(...page.lines.split("\n").slice(0, -1));
      after = page.next;
      parts++;
    } while (after !== undefined);
    assert.ok(parts > 5);
    assert.deepEqual(
      lines.map((line) => ({ ...parseReportLine(line) })),
      all,
    );
    assert.deepEqual(reportPage([], undefined), { lines: "", next: undefined });
  });

  it("FLOW-09: a policy with too many problems and rules for a message is shortened, and invalid lines are refused", () => {
    const rules = Array.from({ length: 5000 }, (_, rule) => ({ direction: "egress" as const, rule, packets: 1 }));
    const problems = Array.from({ length: 50 }, () => `\u001b${"x".repeat(5000)}`);
    const line = reportLine(reported("shop/a", { rules, problems, inForce: undefined, since: undefined }));
    const names = Array.from({ length: 50 }, () => ({ ...KNOWN, name: "a".repeat(253), pod: "a".repeat(317) }));
    assert.ok(JSON.stringify(reportLine(reported("shop/a", { rules, problems, names }))).length < 64_000);
    assert.ok(line.length < 12_000 && !line.includes("\u001b"));
    const read = parseReportLine(line);
    assert.deepEqual(
      [read.problems.length, read.rules.length, read.inForce, read.since],
      [3, 200, undefined, undefined],
    );
    for (const text of ["{", "[]", line.replace('"generation":3', '"generation":-1'), line.replace("enforced", "on")]) {
      assert.throws(() => parseReportLine(text), { code: "ERR_INPUT" }, text.slice(0, 80));
    }
  });

  it("PSTATUS-04: packets count by policy and rule, addresses that pods know by its names are beside them, and the counters are read with the first part", async () => {
    let refreshed = 0;
    const series = [
      { policy: "shop/a", direction: "ingress", rule: 0, packets: 5 },
      { policy: "shop/a", direction: "egress", rule: 1, packets: 0 },
      { policy: "shop/gone", direction: "ingress", rule: 0, packets: 9 },
    ] as const;
    assert.deepEqual(packetsByPolicy(series).get("shop/a")?.length, 2);
    const parts = {
      notices: {
        all: () => [reported("shop/a"), reported("shop/b", { state: "restricted", problems: ["too large"] })],
      },
      counters: {
        refresh: async () => void refreshed++,
        sums: { knownRules: () => series },
      },
      names: () => new Map([["NetworkPolicy shop/b", [KNOWN]]]),
    };
    const report = policyReporter(parts);
    const { lines } = await report(undefined);
    const [a, b] = lines.split("\n").slice(0, -1).map(parseReportLine);
    assert.deepEqual(a?.rules, [
      { direction: "ingress", rule: 0, packets: 5 },
      { direction: "egress", rule: 1, packets: 0 },
    ]);
    assert.deepEqual([b?.state, b?.problems, b?.rules, b?.names], ["restricted", ["too large"], [], [KNOWN]]);
    assert.deepEqual(a?.names, []);
    await report("NetworkPolicy shop/a");
    assert.equal(refreshed, 1);
    const { lines: rest } = await policyReporter(parts)("NetworkPolicy shop/a");
    assert.deepEqual(
      rest
        .split("\n")
        .slice(0, -1)
        .map((line) => parseReportLine(line).key),
      ["shop/b"],
      "a daemon that has started again in between answers for the rest",
    );
  });
});
