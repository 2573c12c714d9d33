import assert from "node:assert/strict";
import { judge } from "../../../../../objects/gate/gate.ts";
import type { ClusterNetworkPolicy, NetworkPolicy } from "../../../../../objects/model.ts";
import { compileProfile } from "../../../../../policyd/policies/compile/compile_profile.ts";
import { policyProblems } from "../../../../../policyd/policies/compile/compile_rules.ts";
import { MOST_PAIRS } from "../../../../../policyd/policies/policy_size.ts";
import type { Profile } from "../../../../../policyd/policies/compile/profile.ts";
import { clusterNetworkPolicy, labelled, networkPolicy, oneOf } from "../../../../support/policy/manifest.ts";

const SHADOW = { "drawbridge.dev/shadow": "true" };

function network(name: string, spec: object, annotations = {}): NetworkPolicy {
  const manifest = { ...networkPolicy("shop", { podSelector: {}, ...spec }) };
  const verdict = judge({ ...manifest, metadata: { name, namespace: "shop", annotations } });
  assert.ok(verdict.type === "accepted" && verdict.object.kind === "NetworkPolicy");
  return verdict.object;
}

function cluster(name: string, spec: object): ClusterNetworkPolicy {
  const verdict = judge(
    clusterNetworkPolicy(name, { tier: "Admin", priority: 1, subject: { namespaces: {} }, ...spec }),
  );
  assert.ok(verdict.type === "accepted" && verdict.object.kind === "ClusterNetworkPolicy");
  return verdict.object;
}

const DENY = { action: "Deny", from: [{ namespaces: {} }] };
const policies = (profile: Profile | undefined): readonly string[] => profile?.isolation?.policies ?? [];

describe("policyd/policies/compile: profiles", () => {
  it("POL-01 POL-11 POL-14: a pod without policies for a direction has no profile in it", () => {
    assert.equal(compileProfile("ingress", [], []), undefined);
    const ingress = network("a", {});
    assert.deepEqual(policies(compileProfile("ingress", [ingress], [])), ["shop/a"]);
    assert.equal(compileProfile("egress", [ingress], []), undefined);
    assert.equal(compileProfile("egress", [], [cluster("c", { ingress: [DENY] })]), undefined);
    const both = network("a", { policyTypes: ["Ingress", "Egress"], ingress: [{}] });
    assert.deepEqual(compileProfile("egress", [both], [])?.isolation, { policies: ["shop/a"], rules: [], omitted: [] });
  });

  it("POL-04: pods share a profile for any order of policies, and for policies that are never evaluated", () => {
    const [a, b] = [network("a", { ingress: [{}] }), network("b", {})];
    const [first, second] = [cluster("x", { ingress: [DENY] }), cluster("y", { priority: 0, ingress: [DENY] })];
    const profile = compileProfile("ingress", [a, b], [first, second]);
    assert.deepEqual(compileProfile("ingress", [b, a], [second, first]), profile);
    assert.deepEqual(policies(profile), ["shop/a", "shop/b"]);
    const [shadow, baseline] = [network("s", {}, SHADOW), cluster("z", { tier: "Baseline", ingress: [DENY] })];
    assert.deepEqual(compileProfile("ingress", [a, shadow, b], [first, baseline, second]), profile);
    assert.match(profile?.key ?? "", /^[0-9a-f]{24}$/);
  });

  it("a profile's key changes with any part of the profile", () => {
    const rule = { from: [{ podSelector: labelled({ app: "a" }) }], ports: [{ port: 80 }] };
    const one = (name: string, spec: object, annotations = {}) =>
      compileProfile("ingress", [network(name, spec, annotations)], [])?.key;
    const keys = [
      one("a", { ingress: [rule] }),
      one("b", { ingress: [rule] }),
      one("a", { ingress: [rule] }, SHADOW),
      one("a", { ingress: [rule, {}] }),
      one("a", { ingress: [{ ...rule, ports: [{ port: 81 }] }] }),
      one("a", { ingress: [{ ...rule, ports: [{ port: 80, protocol: "UDP" }] }] }),
      one("a", { ingress: [{ from: rule.from }] }),
      one("a", { ingress: [{ ports: rule.ports }] }),
      one("a", { ingress: [{ ...rule, from: [{ podSelector: labelled({ app: "b" }) }] }] }),
      compileProfile(
        "egress",
        [network("a", { policyTypes: ["Egress"], egress: [{ to: rule.from, ports: rule.ports }] })],
        [],
      )?.key,
    ];
    assert.equal(new Set(keys).size, keys.length);
  });

  it("groups have the same key if and only if they mean the same", () => {
    const keyOf = (peer: object): string => {
      const rules = compileProfile("ingress", [network("a", { ingress: [{ from: [peer] }] })], [])?.isolation?.rules;
      return rules?.[0]?.peers?.[0]?.key ?? "";
    };
    const [a, b] = [{ app: "a" }, { tier: "b" }];
    assert.equal(
      keyOf({ podSelector: labelled({ ...a, ...b }) }),
      keyOf({ podSelector: { matchLabels: b, matchExpressions: [{ key: "app", operator: "In", values: ["a"] }] } }),
    );
    assert.equal(keyOf({ podSelector: oneOf("app", ["a", "b"]) }), keyOf({ podSelector: oneOf("app", ["b", "a"]) }));
    assert.equal(
      keyOf({ namespaceSelector: labelled(a) }),
      keyOf({ namespaceSelector: labelled(a), podSelector: {} }),
      "an empty selector selects everything",
    );
    const others = [
      { podSelector: {} },
      { podSelector: labelled(a) },
      { podSelector: oneOf("app", ["a"], "NotIn") },
      { namespaceSelector: {} },
      { namespaceSelector: labelled(a) },
      { namespaceSelector: labelled(a), podSelector: labelled(a) },
      { namespaceSelector: {}, podSelector: labelled(a) },
      { ipBlock: { cidr: "10.0.0.0/8" } },
      { ipBlock: { cidr: "::a00:0/104" } },
      { ipBlock: { cidr: "10.0.0.0/8", except: ["10.1.0.0/16"] } },
    ].map(keyOf);
    assert.equal(new Set(others).size, others.length);
  });

  for (const [what, port] of [
    ["ranges of ports", (i: number) => ({ port: 2 * i + 1, endPort: 2 * i + 2 })],
    ["names of ports", (i: number) => ({ port: `p${i}` })],
  ] as const) {
    it(`POL-73: 256 ${what} of a peer fit a policy, and 257 do not: each has sets of its own`, () => {
      const problemsOf = (count: number): readonly string[] => {
        const ports = Array.from({ length: count }, (_, i) => port(i));
        return policyProblems(network("many", { ingress: [{ from: [{ podSelector: {} }], ports }] }));
      };
      assert.deepEqual([problemsOf(256).length, problemsOf(257).length], [0, 1]);
    });
  }

  it("POL-73: a policy with too many pairs isolates, allows nothing, and is reported", () => {
    const ports = Array.from({ length: 64 }, (_, index) => ({ port: 1000 + 2 * index }));
    const except = Array.from({ length: 63 }, (_, index) => `10.${index + 1}.0.0/16`);
    const ingress = [{ from: [{ ipBlock: { cidr: "10.0.0.0/8", except } }], ports }];
    const largest = network("largest", { ingress });
    assert.equal(64 * ports.length, MOST_PAIRS);
    assert.deepEqual(policyProblems(largest), []);
    assert.equal(compileProfile("ingress", [largest], [])?.isolation?.rules.length, 1);
    const larger = network("larger", { ingress: [...ingress, {}] });
    assert.deepEqual(compileProfile("ingress", [larger, network("z", { ingress: [{}] })], [])?.isolation, {
      policies: ["shop/larger", "shop/z"],
      rules: [
        {
          peers: undefined,
          ports: undefined,
          action: "allow",
          origin: { kind: "NetworkPolicy", policy: "shop/z", index: 0 },
        },
      ],
      omitted: [],
    });
    assert.deepEqual(policyProblems(larger), [
      "ingress: 4097 pairs of a peer or an exception and a port (16 for a range or a name of ports and for a list of " +
        "domain names); expected at most 4096: the pods are isolated, and the " +
        "policy allows them nothing; split it into several",
    ]);
  });
});
