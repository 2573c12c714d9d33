import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { systemMachine } from "../../../../cli/node/machine/system_machine.ts";
import { parseReportLine, type ReportedPolicy } from "../../../../policyd/policies/status/policy_report.ts";
import { listenAll } from "../../../support/policy/lab/nine_pods.ts";
import { namespaceManifest, podManifest, type PodPlace } from "../../../support/policy/lab/place.ts";
import { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, inBoth } from "../../../support/policy/lab/question.ts";
import { requireKernel } from "../../../support/privilege.ts";

const PODS: readonly PodPlace[] = [
  { key: "x/a", node: "node1" },
  { key: "x/db", node: "node1" },
];
const PATIENCE_MILLISECONDS = 20_000;

describe("the report of the policies in force, with packets", function () {
  this.timeout(120_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    lab = await PolicyLab.create({ name: "policy-status", pods: PODS, bridgeNetfilter: { node1: true, node2: true } });
    for (const { key } of PODS) listenAll(lab.shooter, lab.place(key));
  });
  after(async () => {
    await lab?.close();
  });

  function policy(name: string, generation: number, ports: readonly number[]): object {
    return {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name, namespace: "x", generation },
      spec: { podSelector: { matchLabels: { app: "db" } }, ingress: ports.map((port) => ({ ports: [{ port }] })) },
    };
  }

  function world(...policies: readonly object[]): readonly object[] {
    return [
      ...lab.nodeManifests(),
      namespaceManifest("x", {}),
      ...PODS.map(({ key, node }) => podManifest(lab.place(key), node, { labels: { app: key.slice(2) } })),
      ...policies,
    ];
  }

  function policiesNow(): readonly ReportedPolicy[] {
    const { policyd } = lab.overrides("node1") as { readonly policyd: { readonly socket: string } };
    const text = lab.wired("node1").node.inside(() => systemMachine(lab.lab.calls).readPolicies(policyd.socket));
    return text.split("\n").slice(0, -1).map(parseReportLine);
  }

  async function policiesWhen(isSo: (all: readonly ReportedPolicy[]) => boolean): Promise<readonly ReportedPolicy[]> {
    const deadline = performance.now() + PATIENCE_MILLISECONDS;
    for (;;) {
      const all = policiesNow();
      if (isSo(all)) return all;
      assert.ok(performance.now() < deadline, JSON.stringify(all, null, 1));
      await pause(50);
    }
  }

  it("PSTATUS-07: the generation in force follows the policy, and the packets of its rules are counted", async () => {
    await lab.apply(world(policy("db", 1, [80])));
    const [first] = await policiesWhen(([one]) => one?.inForce === 1);
    assert.deepEqual([first?.key, first?.state, first?.problems], ["x/db", "enforced", []]);
    await askLab(lab, inBoth("x/a", "x/db", "80/TCP"));
    const [counted] = await policiesWhen(([one]) => (one?.rules[0]?.packets ?? 0) > 0);
    assert.deepEqual(
      counted?.rules.map(({ direction, rule }) => [direction, rule]),
      [["ingress", 0]],
    );
    await lab.apply(world(policy("db", 2, [80, 81])));
    const [second] = await policiesWhen(([one]) => one?.inForce === 2);
    assert.ok((second?.since ?? 0) > (first?.since ?? Infinity));
  });

  it("PSTATUS-02: the report has each of hundreds of policies once", async () => {
    const names = Array.from({ length: 300 }, (_, i) => `p${String(i).padStart(3, "0")}`);
    await lab.apply(world(...names.map((name) => policy(name, 1, [80]))));
    const all = await policiesWhen((found) => found.length === 300 && found.every(({ inForce }) => inForce === 1));
    assert.deepEqual(
      all.map(({ key }) => key),
      names.map((name) => `x/${name}`),
    );
  });
});
