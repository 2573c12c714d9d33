import assert from "node:assert/strict";
import { networkPolicy } from "../../../../support/policy/manifest.ts";
import { ask, indexOf } from "../../../../support/policy/question.ts";

interface PodParts {
  readonly labels?: object;
  readonly spec?: object;
  readonly status?: object;
  readonly deletionTimestamp?: string;
}

const pod = (name: string, { labels = { name }, spec = {}, status = {}, deletionTimestamp }: PodParts = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, labels, ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }) },
  spec: { nodeName: "n1", ...spec },
  status: { phase: "Running", ...status },
});

const at = (...addresses: readonly string[]) => ({ status: { podIPs: addresses.map((ip) => ({ ip })) } });

const node = (name: string, address: string) => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name },
  status: {
    addresses: [
      { type: "ExternalIP", address: "192.0.2.1" },
      { type: "InternalIP", address },
    ],
  },
});

const denyAll = networkPolicy("default", { policyTypes: ["Ingress", "Egress"] });
const fromPods = networkPolicy("default", { ingress: [{ from: [{ podSelector: {} }] }] });

describe("objects/semantics/policies: pods that come, go and share their node's network", () => {
  it("POL-54: a pod of the host's network is never selected, and never a peer of a selector", () => {
    const host = pod("host", { spec: { hostNetwork: true, nodeName: "n2" }, ...at("10.0.0.2") });
    const objects = [node("n1", "10.0.0.1"), node("n2", "10.0.0.2"), host, pod("web")];
    assert.equal(ask(indexOf([...objects, denyAll]), ["198.51.100.1", "default/host"]).kind, "allowed");
    assert.equal(ask(indexOf([...objects, fromPods]), ["default/host", "default/web"]).kind, "denied");
    const byAddress = networkPolicy("default", { ingress: [{ from: [{ ipBlock: { cidr: "10.0.0.2/32" } }] }] });
    const verdict = ask(indexOf([...objects, byAddress]), ["default/host", "default/web"]);
    assert.equal(verdict.kind, "allowed", "the pod has its node's address");
    assert.ok(verdict.kind === "allowed");
    assert.deepEqual(
      { ...verdict.source, address: "" },
      { type: "node", name: "n2", address: "", pod: "default/host" },
    );
  });

  it("POL-57: an address that two pods have belongs to the one that is not terminating", () => {
    const old = pod("a-old", {
      labels: { role: "client" },
      deletionTimestamp: "2026-01-01T00:00:00Z",
      ...at("10.244.0.5"),
    });
    const policy = networkPolicy("default", {
      podSelector: { matchLabels: { name: "server" } },
      ingress: [{ from: [{ podSelector: { matchLabels: { role: "client" } } }] }],
    });
    const objects = [pod("server", at("10.244.0.6")), policy, old];
    assert.equal(
      ask(indexOf(objects), ["10.244.0.5", "default/server"]).kind,
      "allowed",
      "the terminating pod still runs",
    );
    const next = pod("b-new", at("10.244.0.5"));
    assert.equal(ask(indexOf([...objects, next]), ["10.244.0.5", "default/server"]).kind, "denied");
  });

  it("POL-59: a flow has the family of the destination's first address that the source has, too", () => {
    const policy = networkPolicy("default", { ingress: [{ from: [{ ipBlock: { cidr: "fd00::/16" } }] }] });
    const index = indexOf([
      pod("both", at("10.244.0.5", "fd00::5")),
      pod("six", at("fd00::6")),
      pod("four", at("10.244.0.7")),
      policy,
    ]);
    const verdict = ask(index, ["default/six", "default/both"]);
    assert.ok(verdict.kind === "allowed");
    assert.equal(verdict.family, 6);
    assert.equal(ask(index, ["default/four", "default/both"]).kind, "denied");
    assert.deepEqual(ask(index, ["default/four", "default/six"]), {
      kind: "impossible",
      reason: { type: "no common family" },
    });
    assert.equal(ask(index, ["default/both", "default/four"], "80/TCP", { family: 6 }).kind, "impossible");
  });

  it("no flow begins or ends at a pod that has finished", () => {
    const done = pod("done", { status: { phase: "Succeeded", podIPs: [{ ip: "10.244.0.6" }] } });
    const index = indexOf([pod("web", at("10.244.0.5")), done]);
    for (const [pair, end] of [
      [["default/done", "default/web"], "source"],
      [["default/web", "default/done"], "destination"],
    ] as const) {
      assert.deepEqual(ask(index, pair), {
        kind: "impossible",
        reason: { type: "pod has finished", end, pod: "default/done" },
      });
    }
  });

  it("an unknown pod or node is an error that names it", () => {
    const index = indexOf([pod("web")]);
    assert.throws(() => ask(index, ["default/wbe", "default/web"]), {
      code: "ERR_OBJECT",
      message: 'pod: "default/wbe" is not among the objects; expected a Pod as namespace/name',
    });
    assert.throws(() => ask(index, ["node/n1", "default/web"]), { code: "ERR_OBJECT" });
  });
});
