import assert from "node:assert/strict";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { add, type Configuration, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { testLab } from "../../support/suite_lab.ts";
import { until, valueWhen } from "../../support/until.ts";
import { configured } from "../../support/daemon/policyd.ts";

const POLICY_TABLE = ["list", "table", "inet", "drawbridge-policy"];

function podText(name: string, app: string): string {
  return `
apiVersion: v1
kind: Pod
metadata: {name: ${name}, namespace: default, uid: uid-${name}, labels: {app: ${app}}}
spec: {nodeName: node1}
status: {phase: Running}
`;
}

function policyText(name: string, spec: string): string {
  return `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: ${name}, namespace: default}
spec: ${spec}
`;
}

const DENY = policyText("deny", "{podSelector: {}, policyTypes: [Ingress]}");

describe("policies of a node with policyd", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let overrides: Configuration;

  beforeEach(function () {
    lab = testLab(this, "policyd-policies");
    ({ node1: wired } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
    overrides = policyd.overrides;
  });
  function attach(name: string): LabPod {
    const pod = lab.pod(name);
    assert.equal(add(wired, pod, overrides).error, undefined);
    return pod;
  }

  /** Returns whether ICMP gets there and back, for the addresses of both families that end with this number. */
  async function areReached(from: LabPod, number: number): Promise<readonly boolean[]> {
    using prober = new Prober(lab);
    const flows = [`10.244.1.${number}`, `fd00:244:1::${number}`].map((address) => ({
      protocol: "icmp" as const,
      from,
      to: { address: parseAddress(address), port: 0 },
    }));
    return (await prober.run(flows, { timeoutMilliseconds: 400 })).map(({ reached }) => reached);
  }

  /** Waits until the pod is reached, or is not: rules change some milliseconds after files. */
  async function expectReached(from: LabPod, number: number, isReached: boolean): Promise<void> {
    await valueWhen(
      () => areReached(from, number),
      (reached) => reached.every((one) => one === isReached),
      (reached) => `${reached.join()}; expected ${isReached}: ${wired.node.exec("nft", POLICY_TABLE)}`,
    );
  }

  it("REG-07 POL-09: a pod on another bridge than policyd's, where no policy is enforced, is refused; an existing one is reported", async () => {
    policyd.put("pods.yaml", `${podText("a", "web")}---${podText("b", "db")}---${DENY}`);
    await policyd.start(["--bridge=cni9"]);
    const refused = add(wired, lab.pod("a"), overrides);
    assert.match(
      refused.error?.msg ?? "",
      /bridge: "cni0"; expected "cni9", policyd's bridge, the only one on which it enforces policies/,
    );
    await policyd.kill();
    await policyd.start();
    attach("b");
    await policyd.kill();
    const daemon = await policyd.start(["--bridge=cni9"]);
    assert.match(daemon.status().problems.join(), /1 pods, such as default\/b on "cni0", are not on "cni9"/);
    await daemon.statusWhen(() => /error pods without policies reason=/.test(daemon.log()), "the log says it");
  });

  it("POL-09: policies apply to a pod when its ADD returns, and the ADD waits for its Pod object", async () => {
    const running = await policyd.start();
    policyd.put("deny.yaml", DENY);
    await running.statusWhen(({ objects }) => objects["NetworkPolicy"] === 1, "policy read");
    policyd.put("a.yaml", podText("a", "web"));
    const a = attach("a");
    const b = lab.pod("b");
    const added = startPlugin(wired.node, podCall("ADD", wired, b, overrides)).outcome;
    let hasReturned = false;
    void added.then(() => (hasReturned = true));
    const { problems } = await running.statusWhen(({ problemCount }) => problemCount > 0, "waiting");
    assert.match(problems.join(), /pod default\/b sends and receives nothing: .*Pod default\/b/);
    assert.equal(hasReturned, false);
    policyd.put("b.yaml", podText("b", "db"));
    assert.equal((await added).exitCode, 0);
    assert.deepEqual(await areReached(a, 3), [false, false]);
    assert.deepEqual(running.status().problems, []);
  });

  it("POL-28: nothing is left of a deleted pod in the policy table, and no chain once its policies are gone", async () => {
    const running = await policyd.start();
    policyd.put("deny.yaml", DENY);
    for (const name of ["a", "b"]) policyd.put(`${name}.yaml`, podText(name, "web"));
    const [, b] = [attach("a"), attach("b")];
    assert.equal(del(wired, b, overrides).exitCode, 0);
    const after = wired.node.exec("nft", POLICY_TABLE);
    assert.ok(!after.includes("10.244.1.3") && !after.includes("fd00:244:1::3"), after);
    assert.ok(after.includes("10.244.1.2"), after);
    for (const name of ["a", "b"]) policyd.put(`${name}.yaml`, "");
    policyd.put("deny.yaml", "");
    await running.statusWhen(({ objects }) => objects["NetworkPolicy"] === 0, "policy gone");
    const chains = (): readonly string[] => wired.node.exec("nft", POLICY_TABLE).match(/chain (in|e)gress_\w+/g) ?? [];
    await until(
      () => chains().length === 0,
      () => chains().join(),
    );
  });

  it("POL-09 REG-03: a restarted daemon finds the pods that are there, and they stay isolated meanwhile", async () => {
    const first = await policyd.start();
    policyd.put("deny.yaml", DENY);
    for (const name of ["a", "b"]) policyd.put(`${name}.yaml`, podText(name, "web"));
    const [a] = [attach("a"), attach("b")];
    await expectReached(a, 3, false);
    await first.kill("SIGKILL");
    assert.deepEqual(await areReached(a, 3), [false, false]);
    const second = await policyd.start();
    assert.deepEqual(await areReached(a, 3), [false, false]);
    assert.deepEqual(second.status().problems, []);
    policyd.put("allow.yaml", policyText("allow", "{podSelector: {}, ingress: [{}]}"));
    await expectReached(a, 3, true);
  });

  it("POL-58: the pods of a terminating namespace stay isolated, and closed by a daemon that starts after a kill, which says so (CVE-2024-7598)", async () => {
    const ending = `
apiVersion: v1
kind: Namespace
metadata: {name: default, deletionTimestamp: "2026-01-01T00:00:00Z"}
`;
    await policyd.start();
    policyd.put("namespace.yaml", ending.replace(/, deletion.*"/, ""));
    policyd.put("deny.yaml", DENY);
    for (const name of ["a", "b"]) policyd.put(`${name}.yaml`, podText(name, "web"));
    const [a] = [attach("a"), attach("b")];
    await expectReached(a, 3, false);
    policyd.put("namespace.yaml", ending);
    policyd.put("deny.yaml", "");
    for (let left = 5; left > 0; left--) assert.deepEqual(await areReached(a, 3), [false, false]);
    await policyd.kill();
    assert.deepEqual(await areReached(a, 3), [false, false]);
    const next = await policyd.start();
    for (let left = 10; left > 0; left--) assert.deepEqual(await areReached(a, 3), [false, false]);
    assert.match(
      next.status().problems.join("\n"),
      /pod default\/a sends and receives nothing: the namespace of default\/a was being deleted/,
    );
  });

  it("POL-01: with policies: false nothing is isolated, not even by the rules of an earlier daemon", async () => {
    const { node } = wired;
    policyd.put("deny.yaml", DENY);
    const isThere = (): boolean => node.exec("nft", ["list", "tables"]).includes("drawbridge-policy");
    await policyd.start();
    await until(isThere, "no table of policies");
    await policyd.kill();
    await policyd.start([configured(lab.scratch, { policies: false })]);
    const [a] = [attach("a"), attach("b")];
    assert.deepEqual(await areReached(a, 3), [true, true]);
    assert.equal(isThere(), false);
  });
});
