import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { addressFromValue, formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import type { NetworkPolicy, Pod } from "../../../../objects/model.ts";
import type { AffectedAddresses } from "../../../../policyd/policies/live/pods/affected_addresses.ts";
import { FaultyNftables } from "../../../support/ruleset/faulty_nftables.ts";
import { gone, LiveNode, set } from "../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../support/policy/live/ticking_clock.ts";
import { policyView } from "../../../../policyd/policies/live/policy_view.ts";

function pod(name: string, parts: { readonly uid?: string; readonly app?: string; readonly ip?: string } = {}): Pod {
  const { uid = `uid-${name}`, app = "web", ip } = parts;
  return objectOf("Pod", {
    metadata: { name, namespace: "n", uid, labels: { app } },
    spec: { nodeName: "node1" },
    status: { phase: "Running", podIPs: ip === undefined ? [] : [{ ip }] },
  });
}

function policy(name: string, spec: object, namespace = "n"): NetworkPolicy {
  return objectOf("NetworkPolicy", { metadata: { name, namespace }, spec });
}

const DENY = policy("deny", { podSelector: {} });
const DENY_WEB = policy("deny-web", { podSelector: { matchLabels: { app: "web" } } });
const FROM_WEB = policy("from-web", {
  podSelector: { matchLabels: { app: "db" } },
  ingress: [{ from: [{ podSelector: { matchLabels: { app: "web" } } }] }],
});

function attachment(name: string, number: number): AttachmentRecord {
  return attachmentOf(pod(name), [`10.244.1.${number}`]);
}

const A = attachment("a", 2);
const B = attachment("b", 3);

/** A node that has started, on a kernel in memory. */
function begun(kernel = new FakeNftables()) {
  const clock = new TickingClock(0);
  return { node: new LiveNode({ kernel, clock }), clock, kernel };
}

/** The addresses in the elements of a set; of a verdict map only those with a profile. */
function inSet(node: LiveNode, name: string): readonly string[] {
  const elements = name === "egress4" || name === "ingress4" ? node.judged(name) : node.elements(name);
  return elements.map((text) => {
    const address = addressFromValue(4, BigInt(Number.parseInt(text, 10)));
    return address === undefined ? text : formatAddress(address);
  });
}

describe("policyd/policies: enforcement", () => {
  it("POL-01 REG-01: a pod that no policy could select is known at once, with and without a Pod", () => {
    const { node } = begun();
    node.change(set(policy("other", { podSelector: {} }, "elsewhere")));
    const { pod: _, ...withoutPod } = B;
    for (const record of [A, withoutPod]) node.apply({ type: "attached", attachment: record });
    node.settle();
    assert.deepEqual([inSet(node, "known4"), inSet(node, "ingress4")], [["10.244.1.2", "10.244.1.3"], []]);
    assert.deepEqual(node.component.problems(), []);
  });

  it("POL-09: a waiting pod is opened when no policy could select it any more, and closed again by the next policy", () => {
    const { node } = begun();
    node.change(set(DENY_WEB));
    node.apply({ type: "attached", attachment: A });
    node.change(gone(DENY_WEB));
    assert.deepEqual(inSet(node, "known4"), ["10.244.1.2"]);
    node.change(set(DENY_WEB));
    assert.deepEqual(inSet(node, "known4"), []);
  });

  it("POL-28: a Pod with another uid is a different pod, and the attached one keeps its own labels", () => {
    const { node } = begun();
    node.change(set(DENY_WEB), set(pod("a", { uid: "other", app: "db" })));
    node.apply({ type: "attached", attachment: A });
    node.settle();
    assert.deepEqual(inSet(node, "known4"), []);
    node.change(set(pod("a")));
    assert.deepEqual(inSet(node, "ingress4"), ["10.244.1.2"]);
    node.change(set(pod("a", { uid: "third", app: "db" })));
    assert.deepEqual(inSet(node, "ingress4"), ["10.244.1.2"]);
    node.change(gone(pod("a")));
    assert.deepEqual([inSet(node, "known4"), inSet(node, "ingress4")], [["10.244.1.2"], ["10.244.1.2"]]);
    node.change(set(pod("a", { uid: "", app: "db" })));
    assert.deepEqual([inSet(node, "known4"), inSet(node, "ingress4")], [["10.244.1.2"], []], "files give no uid");
  });

  it("POL-09: a static pod is recognised by its mirror Pod, although that has another uid", () => {
    const { node } = begun();
    const mirror = objectOf("Pod", {
      metadata: {
        name: "a",
        namespace: "n",
        uid: "of-the-mirror",
        labels: { app: "web" },
        annotations: { "kubernetes.io/config.mirror": "uid-a" },
      },
      spec: { nodeName: "node1" },
      status: { phase: "Running" },
    });
    node.change(set(DENY_WEB), set(mirror));
    node.apply({ type: "attached", attachment: A });
    node.settle();
    assert.deepEqual([inSet(node, "known4"), inSet(node, "ingress4")], [["10.244.1.2"], ["10.244.1.2"]]);
  });

  it("POL-28: an attached pod is a peer by its address before its status has it, and no other pod is by that address", () => {
    const { node } = begun();
    node.change(set(FROM_WEB), set(pod("b", { app: "db" })), set(pod("a")));
    node.change(set(pod("stale", { app: "web", ip: "10.244.1.9" })));
    node.apply({ type: "attached", attachment: B });
    node.settle();
    const [group = ""] = node.provided().filter((name) => inSet(node, name).length > 0);
    assert.deepEqual(inSet(node, group), ["10.244.1.9"]);
    node.apply({ type: "attached", attachment: A });
    node.settle();
    assert.deepEqual(inSet(node, group), ["10.244.1.2", "10.244.1.9"]);
    node.apply({ type: "attached", attachment: attachment("none", 9) });
    node.settle();
    assert.deepEqual(inSet(node, group), ["10.244.1.2"]);
    // The attached pod still runs (POL-58).
    node.change(set(pod("a", { uid: "other" })));
    assert.deepEqual(inSet(node, group), ["10.244.1.2"]);
    node.apply({ type: "detached", name: A });
    node.settle();
    assert.deepEqual(inSet(node, group), []);
  });

  it("REG-01: a caller that waits for a pod which goes gets an error", async () => {
    const { node } = begun();
    node.change(set(DENY));
    node.apply({ type: "attached", attachment: A });
    const waiting = assert.rejects(node.component.inForce(A), { code: "ERR_UNAVAILABLE" });
    node.apply({ type: "detached", name: A });
    await waiting;
  });

  it("REG-01: a caller that waits for a pod which is gone or never existed gets an error at once", async () => {
    const { node } = begun();
    node.apply({ type: "attached", attachment: A });
    node.apply({ type: "detached", name: A });
    node.settle();
    const refusals: unknown[] = [];
    for (const record of [A, B]) void node.component.inForce(record).catch((error: unknown) => refusals.push(error));
    await turn();
    assert.match(refusals.join(), /(removed before its policies were in force.*){2}/);
  });

  it("REG-01: a pod is not reported as in force while the kernel refuses its elements", async () => {
    const kernel = new FaultyNftables(new FakeNftables(), () => 0, { commit: 0, read: 0 });
    const clock = new TickingClock(0);
    const node = new LiveNode({ kernel, clock });
    kernel.setRates({ commit: 1, read: 0 });
    node.apply({ type: "attached", attachment: A });
    let isInForce = false;
    const inForce = node.component.inForce(A).then(() => (isInForce = true));
    clock.pass(10);
    await turn();
    assert.equal(isInForce, false);
    kernel.setRates({ commit: 0, read: 0 });
    clock.pass(100);
    await inForce;
    assert.deepEqual(inSet(node, "known4"), ["10.244.1.2"]);
  });

  it("followers learn the addresses whose verdicts may have changed, when the change is in force", () => {
    const { node } = begun();
    const reported: AffectedAddresses[] = [];
    let stops = 0;
    node.component.follow({ verdictsChanged: ({ addresses }) => reported.push(addresses), stop: () => void stops++ });
    const texts = (): readonly (string | readonly string[])[] =>
      reported.splice(0).map((affected) => (affected === "all" ? affected : [...affected].map(formatAddress).sort()));
    node.change(set(FROM_WEB), set(pod("b", { app: "db" })), set(pod("a", { ip: "10.244.2.7" })));
    node.apply({ type: "attached", attachment: B });
    node.settle();
    assert.deepEqual(texts(), [["10.244.1.3", "10.244.2.7"]]);
    node.change(set(pod("a", { app: "db", ip: "10.244.2.7" })));
    assert.deepEqual(texts(), [["10.244.2.7"]], "a peer left a group");
    node.change(set(DENY));
    assert.deepEqual(texts(), [["10.244.1.3"]], "a pod has another profile");
    node.change(set(pod("c", { app: "none", ip: "10.244.2.8" })));
    assert.deepEqual(texts(), []);
    node.ruleset.verify();
    node.stop();
    assert.equal(stops, 1);
  });

  for (const [tick, isWorkedOut] of [
    [1000, false],
    [0, true],
  ] as const) {
    it(`POL-81: verdicts are ahead of the rules in force while a change is ${isWorkedOut ? "not written" : "computed"} yet`, () => {
      const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(tick) });
      node.apply({ type: "attached", attachment: A });
      node.settle();
      assert.equal(node.component.isSettled, true);
      node.apply({ type: "objects", changes: [set(DENY), set(pod("a"))] });
      assert.deepEqual([node.component.isWorkedOut, node.component.isSettled], [isWorkedOut, false]);
      node.settle();
      assert.equal(node.component.isSettled, true);
    });
  }

  it("the view knows the profiles in use and the owner of an address", () => {
    const { node } = begun();
    node.change(set(DENY), set(pod("a")), set(pod("b")), set(pod("c", { ip: "10.244.2.7" })));
    for (const record of [B, A]) node.apply({ type: "attached", attachment: record });
    node.settle();
    const view = policyView(node.component.live);
    const [chain = ""] = node.provided();
    assert.deepEqual(view.profile(chain.replace("ingress_", ""))?.isolation?.policies, ["n/deny"]);
    assert.equal(view.profile("0123456789abcdef"), undefined);
    const names = ["10.244.1.2", "10.244.2.7", "10.9.9.9"].map((text) => {
      const holder = view.holderOf(parseAddress(text));
      return holder?.type === "pod" ? holder.pod.key : holder;
    });
    assert.deepEqual(names, ["n/a", "n/c", undefined]);
    const holder = view.holderOf(parseAddress("10.244.1.2"));
    assert.deepEqual(holder?.type === "pod" && view.policiesOf(holder.pod).networkPolicies, [DENY]);
  });
});
