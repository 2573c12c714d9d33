import assert from "node:assert/strict";
import { networkPolicy } from "../../../../support/policy/manifest.ts";
import { ask, indexOf } from "../../../../support/policy/question.ts";

const pod = (name: string, status: object = {}) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, labels: { name } },
  spec: { nodeName: "n1" },
  status: { phase: "Running", ...status },
});

const at = (...addresses: readonly string[]) => ({ podIPs: addresses.map((ip) => ({ ip })) });

describe("objects/semantics/policies: pods that are finished, unknown or of another family", () => {
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
    const done = pod("done", { phase: "Succeeded", ...at("10.244.0.6") });
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
