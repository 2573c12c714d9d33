import assert from "node:assert/strict";
import { leadsToOurs } from "../../../../policyd/installation/primary.ts";
import { freshText, ownPartNamed } from "../../../support/installation/own_part.ts";

const LIST: unknown = JSON.parse(freshText(ownPartNamed("drawbridge")));

describe("policyd/installation: the configuration that comes first", () => {
  const leads = (value: unknown): boolean => leadsToOurs(Buffer.from(JSON.stringify(value)));

  it("CHAIN-06: a configuration that delegates to our list by a copy, a name or a path leads to ours", () => {
    assert.ok(leads({ type: "multus", delegates: [LIST] }));
    assert.ok(leads({ type: "multus-shim", clusterNetwork: "/host/etc/cni/net.d/10-drawbridge.conflist" }));
    assert.ok(leads({ type: "multus", clusterNetwork: "drawbridge" }));
    assert.ok(leads({ type: "multus", delegates: [{ name: "drawbridge" }] }));
    assert.ok(leads({ name: "multus-cni-network", plugins: [{ type: "multus-shim", delegates: [LIST] }] }));
  });

  it("CHAIN-06: another program's list that has our plugin in it leads to ours", () => {
    assert.ok(leads({ name: "drawbridge", plugins: [{ type: "drawbridge" }, { type: "istio-cni" }] }));
    assert.ok(leads({ name: "x", type: "drawbridge" }));
  });

  it("CHAIN-06: another network's configuration and invalid text do not lead to ours", () => {
    for (const value of [
      { name: "drawbridge", plugins: [{ type: "calico" }] },
      { type: "multus", delegates: [{ type: "flannel", name: "cbr0" }], clusterNetwork: "cbr0" },
      { type: "linkerd-cni", name: "linkerd-cni" },
      { plugins: "drawbridge" },
      { note: { type: "drawbridge" } },
      ["drawbridge"],
      null,
    ]) {
      assert.equal(leads(value), false, JSON.stringify(value));
    }
    for (const text of ["", "{", "[".repeat(200_000)]) assert.equal(leadsToOurs(Buffer.from(text)), false);
    const deep = '{"delegates":['.repeat(5000) + "]}".repeat(5000);
    assert.equal(leadsToOurs(Buffer.from(deep)), false);
  });
});
