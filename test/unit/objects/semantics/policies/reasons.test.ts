import assert from "node:assert/strict";
import { clusterNetworkPolicy, labelled, networkPolicy, oneOf } from "../../../../support/policy/manifest.ts";
import { ask, indexOf } from "../../../../support/policy/question.ts";
import { threeByThree } from "../../../../support/policy/three_by_three.ts";

const A = labelled({ pod: "a" });

/** The failed parts of the nearest rule when `from` connects to 80/TCP at x/a, with the places of peer and port. */
function nearest(ingress: readonly object[], from = "y/b", traffic = "80/TCP"): unknown {
  const verdict = ask(
    indexOf([...threeByThree(), networkPolicy("x", { podSelector: A, ingress })]),
    [from, "x/a"],
    traffic,
  );
  assert.ok(verdict.kind === "denied");
  const { rule, peer, port, failed } = verdict.ingress.nearest ?? { failed: [] };
  return { place: [rule, peer, port], failed: structuredClone(failed) };
}

describe("objects/semantics/policies: reasons", () => {
  it("POL-51: the nearest miss is the rule with the fewest failures, and of equal ones that whose peer matches", () => {
    const wrongPod = { from: [{ podSelector: labelled({ pod: "z" }) }], ports: [{ port: 81 }] };
    const wrongPort = {
      from: [{ namespaceSelector: labelled({ ns: "z" }) }, { namespaceSelector: {} }],
      ports: [{ port: 443 }, { protocol: "UDP" }],
    };
    assert.deepEqual(nearest([wrongPod, wrongPort]), {
      place: [1, 1, 0],
      failed: [{ type: "port", from: 443, to: 443 }],
    });
    const wrongPeer = { from: [{ podSelector: labelled({ pod: "b" }) }] };
    assert.deepEqual(nearest([wrongPeer, wrongPort]), {
      place: [1, 1, 0],
      failed: [{ type: "port", from: 443, to: 443 }],
    });
    assert.deepEqual(nearest([wrongPeer]), {
      place: [0, 0, undefined],
      failed: [{ type: "namespace", expected: "x" }],
    });
    assert.deepEqual(nearest([]), { place: [undefined, undefined, undefined], failed: [] });
  });

  const failures: readonly (readonly [string, object, object, string?, string?])[] = [
    [
      "labels of a pod",
      { from: [{ namespaceSelector: {}, podSelector: oneOf("pod", ["b"], "NotIn") }] },
      { type: "pod labels", requirement: { key: "pod", operator: "NotIn", values: ["b"] } },
    ],
    [
      "labels of a namespace",
      { from: [{ namespaceSelector: labelled({ ns: "z" }) }] },
      { type: "namespace labels", requirement: { key: "ns", operator: "In", values: ["z"] } },
    ],
    ["a peer that is not a pod", { from: [{ namespaceSelector: {} }] }, { type: "no pod" }, "192.0.2.1"],
    ["a protocol", { ports: [{ protocol: "UDP" }] }, { type: "protocol", expected: "UDP" }],
    ["a range", { ports: [{ port: 81, endPort: 90 }] }, { type: "port", from: 81, to: 90 }],
    [
      "a name with another number",
      { ports: [{ port: "serve-81-tcp" }] },
      { type: "named port", name: "serve-81-tcp", found: [81] },
    ],
    ["a name that no pod has", { ports: [{ port: "web" }] }, { type: "named port", name: "web", found: [] }],
    ["ICMP", { ports: [{ port: 80 }] }, { type: "ICMP has no ports" }, "y/b", "ICMP"],
  ];
  for (const [what, rule, failure, from, traffic] of failures) {
    it(`POL-51: the near miss for ${what} is named`, () => {
      const { failed } = nearest([rule], from, traffic) as { readonly failed: unknown };
      assert.deepEqual(failed, [failure]);
    });
  }

  it("POL-51: a near miss of an ipBlock says whether the cidr or an exception is the reason", () => {
    const block = { from: [{ ipBlock: { cidr: "10.244.2.0/24", except: ["10.244.2.2/32"] } }] };
    const types = ["y/b", "z/a"].map((from) => {
      const { failed } = nearest([block], from) as { readonly failed: readonly { readonly type: string }[] };
      return failed.map(({ type }) => type);
    });
    assert.deepEqual(types, [["except"], ["outside cidr"]]);
  });

  const ALL = [{ namespaces: {} }];
  const tier = (name: string, priority: number, ...actions: readonly string[]) =>
    clusterNetworkPolicy(name, {
      tier: "Admin",
      priority,
      subject: { namespaces: labelled({ ns: "x" }) },
      ingress: actions.map((action) => ({ action, from: ALL })),
    });

  it("CNP-02: of equal priority the first policy by name counts, and the verdict names those that differ", () => {
    const policies = [tier("b", 7, "Deny"), tier("a", 7, "Accept"), tier("c", 7, "Accept"), tier("d", 8, "Deny")];
    const verdict = ask(indexOf([...threeByThree(), ...policies]), ["y/a", "x/a"]);
    assert.ok(verdict.kind === "allowed");
    assert.ok(verdict.ingress.decision.type === "cluster rule");
    assert.deepEqual(verdict.ingress.decision.rule, {
      policy: "a",
      tier: "Admin",
      priority: 7,
      rule: 0,
      peer: 0,
      port: undefined,
      action: "Accept",
      name: undefined,
      unreadable: undefined,
      tiedWith: ["b"],
    });
  });

  it("CNP-07: the verdict says why a rule that cannot be read denies everyone", () => {
    const rule = { action: "Pass", to: [{ domainNames: ["example.org"] }] };
    const spec = { tier: "Admin", priority: 0, subject: { namespaces: {} }, egress: [rule] };
    const verdict = ask(indexOf([...threeByThree(), clusterNetworkPolicy("a", spec)]), ["x/a", "y/a"]);
    assert.ok(verdict.kind === "denied" && verdict.egress.decision.type === "cluster rule");
    assert.match(verdict.egress.decision.rule.unreadable ?? "", /domainNames/);
  });
});
