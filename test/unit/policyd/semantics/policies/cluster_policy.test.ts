import assert from "node:assert/strict";
import { clusterNetworkPolicy, labelled, networkPolicy } from "../../../../support/policy/manifest.ts";
import { allowed, ask, indexOf } from "../../../../support/policy/question.ts";
import { threeByThree } from "../../../../support/policy/three_by_three.ts";

const ALL = { namespaces: {} };
const X = { namespaces: labelled({ ns: "x" }) };
const Y = { namespaces: labelled({ ns: "y" }) };

type Rule = Readonly<Record<string, unknown>>;

/** A policy about what x/a to x/c receive, or send if the rules have `to`. */
function policy(name: string, tier: "Admin" | "Baseline", priority: number, ...rules: readonly Rule[]): object {
  const direction = rules.some((rule) => "to" in rule) ? "egress" : "ingress";
  return clusterNetworkPolicy(name, { tier, priority, subject: X, [direction]: rules });
}

const from = (action: string, peer: object = ALL): Rule => ({ action, from: [peer] });
const to = (action: string, ...peers: readonly object[]): Rule => ({ action, to: peers });
const kind = (policies: readonly object[], ends: readonly [string, string] = ["y/a", "x/a"], traffic?: string) =>
  ask(indexOf([...threeByThree(), ...policies]), ends, traffic).kind;

const denyByV1 = networkPolicy("x", { ingress: [] });
const allowByV1 = networkPolicy("x", { ingress: [{}] });

describe("policyd/semantics/policies: ClusterNetworkPolicy", () => {
  it("CNP-01: the Admin tier decides first, then NetworkPolicies, then the Baseline tier, and the default is allowed", () => {
    assert.equal(kind([policy("a", "Admin", 0, from("Accept")), denyByV1]), "allowed");
    assert.equal(kind([policy("a", "Admin", 0, from("Deny")), allowByV1]), "denied");
    assert.equal(kind([policy("b", "Baseline", 0, from("Deny")), allowByV1]), "allowed");
    assert.equal(kind([policy("b", "Baseline", 0, from("Accept")), denyByV1]), "denied");
    assert.equal(kind([policy("b", "Baseline", 0, from("Deny"))]), "denied");
    assert.equal(kind([policy("b", "Baseline", 0, from("Deny", X))]), "allowed", "a policy isolates no pod by itself");
  });

  it("CNP-01: a NetworkPolicy for the other direction does not override the Baseline tier", () => {
    const egressOnly = networkPolicy("x", { policyTypes: ["Egress"], egress: [{}] });
    assert.equal(kind([policy("b", "Baseline", 0, from("Accept")), egressOnly]), "allowed");
    assert.equal(kind([policy("b", "Baseline", 0, from("Deny")), egressOnly]), "denied");
  });

  it("CNP-02: the policy with the lowest priority comes first, and in a policy the first rule that matches", () => {
    const [accept, deny] = [policy("z", "Admin", 1, from("Accept")), policy("a", "Admin", 2, from("Deny"))];
    for (const policies of [
      [accept, deny],
      [deny, accept],
    ])
      assert.equal(kind(policies), "allowed");
    assert.equal(kind([policy("a", "Admin", 0, from("Deny", Y), from("Accept"))]), "denied");
    assert.equal(kind([policy("a", "Admin", 0, from("Accept", Y), from("Deny"))]), "allowed");
  });

  it("CNP-02: of equal priority the first policy by name counts, and the verdict names those that differ", () => {
    const policies = [
      policy("b", "Admin", 7, from("Deny")),
      policy("a", "Admin", 7, from("Accept")),
      policy("c", "Admin", 7, from("Accept")),
    ];
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

  it("CNP-03: Pass skips only the rest of its tier", () => {
    const pass = policy("a", "Admin", 0, from("Pass"), from("Deny"));
    const later = policy("b", "Admin", 1, from("Deny"));
    const baseline = policy("c", "Baseline", 0, from("Deny"));
    assert.equal(kind([pass, later]), "allowed");
    assert.equal(kind([pass, later, denyByV1]), "denied");
    assert.equal(kind([pass, later, baseline]), "denied");
    assert.equal(kind([policy("d", "Baseline", 0, from("Pass")), policy("e", "Baseline", 1, from("Deny"))]), "allowed");
    const verdict = ask(indexOf([...threeByThree(), pass, baseline]), ["y/a", "x/a"]);
    assert.ok(verdict.kind === "denied");
    assert.deepEqual(
      verdict.ingress.passed.map(({ policy: name, rule }) => [name, rule]),
      [["a", 0]],
    );
  });

  it("CNP-04: subjects and peers are pods that are selected by their own or their namespaces' labels", () => {
    const peers = [
      [{ pods: { podSelector: labelled({ pod: "a" }) } }, ["y/a", "z/a"]],
      [{ pods: { namespaceSelector: labelled({ ns: "y" }), podSelector: labelled({ pod: "a" }) } }, ["y/a"]],
      [{ pods: { namespaceSelector: labelled({ ns: "y" }), podSelector: {} } }, ["y/a", "y/b"]],
      [{ namespaces: {} }, ["y/a", "y/b", "z/a"]],
    ] as const;
    for (const [peer, expected] of peers) {
      const senders = ["y/a", "y/b", "z/a", "192.0.2.1", "node/node-y"];
      assert.deepEqual(
        senders.filter((sender) => kind([policy("a", "Admin", 0, from("Deny", peer))], [sender, "x/a"]) === "denied"),
        expected,
      );
    }
    const subject = { pods: { namespaceSelector: labelled({ ns: "x" }), podSelector: labelled({ pod: "b" }) } };
    const index = indexOf([
      ...threeByThree(),
      clusterNetworkPolicy("a", { tier: "Admin", priority: 0, subject, ingress: [from("Deny")] }),
    ]);
    assert.deepEqual(
      allowed(index, [
        ["y/a", "x/a"],
        ["y/a", "x/b"],
        ["y/a", "y/b"],
      ]),
      ["y/a -> x/a", "y/a -> y/b"],
    );
  });

  it("CNP-05: a network covers every address, also of pods and nodes, and ICMP", () => {
    const deny = policy("a", "Admin", 0, to("Deny", { networks: ["10.244.2.0/24", "fd00:244::/32", "10.240.0.0/24"] }));
    const index = indexOf([...threeByThree(), deny]);
    const flows = [
      ["x/a", "y/a"],
      ["x/a", "z/a"],
      ["x/a", "fd00:244::9"],
      ["x/a", "node/node-y"],
      ["x/a", "node/node-x"],
      ["x/a", "192.0.2.1"],
    ] as const;
    assert.deepEqual(allowed(index, flows), ["x/a -> z/a", "x/a -> 192.0.2.1"]);
    assert.deepEqual(allowed(index, flows, "ICMP"), ["x/a -> z/a", "x/a -> 192.0.2.1"]);
  });

  it("CNP-05: nodes are peers by their labels, including the pod's own node", () => {
    const objects = [
      ...threeByThree(),
      ...["node-x", "node-y"].map((name) => ({
        apiVersion: "v1",
        kind: "Node",
        metadata: { name, labels: { role: "edge" } },
      })),
    ];
    const index = indexOf([...objects, policy("a", "Admin", 0, to("Deny", { nodes: labelled({ role: "edge" }) }))]);
    assert.deepEqual(
      allowed(index, [
        ["x/a", "node/node-x"],
        ["x/a", "node/node-y"],
        ["x/a", "node/node-z"],
        ["x/a", "y/a"],
      ]),
      ["x/a -> node/node-z", "x/a -> y/a"],
    );
  });

  it("CNP-06: protocols are port numbers, ranges, and names of the destination in any protocol", () => {
    const port = (destinationPort: object) => ({ destinationPort });
    const cases: readonly (readonly [object, readonly string[]])[] = [
      [{ tcp: port({ number: 80 }) }, ["80/TCP"]],
      [{ udp: port({ range: { start: 80, end: 81 } }) }, ["80/UDP", "81/UDP"]],
      [{ sctp: port({ number: 81 }) }, ["81/SCTP"]],
      [{ destinationNamedPort: "serve-81-udp" }, ["81/UDP"]],
      [{ destinationNamedPort: "nobody" }, []],
    ];
    const traffic = ["80/TCP", "81/TCP", "80/UDP", "81/UDP", "80/SCTP", "81/SCTP", "ICMP"];
    for (const [protocol, denied] of cases) {
      for (const rule of [from("Deny"), to("Deny", ALL)]) {
        const ends = "to" in rule ? (["x/a", "y/a"] as const) : (["y/a", "x/a"] as const);
        const policies = [policy("a", "Admin", 0, { ...rule, protocols: [protocol] })];
        assert.deepEqual(
          traffic.filter((one) => kind(policies, ends, one) === "denied"),
          denied,
          JSON.stringify(protocol),
        );
      }
    }
  });

  it("CNP-06: a port name that several containers of a pod use stands for each of their ports", () => {
    const ports = [
      { name: "http", containerPort: 8080 },
      { name: "http", containerPort: 9090 },
      { name: "http", containerPort: 8443, protocol: "UDP" },
    ];
    const server = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "server", namespace: "x" },
      spec: { containers: ports.map((port, index) => ({ name: `server-${index}`, ports: [port] })) },
    };
    const deny = policy("a", "Admin", 0, { ...from("Deny"), protocols: [{ destinationNamedPort: "http" }] });
    const index = indexOf([...threeByThree(), server, deny]);
    const traffic = ["8080/TCP", "9090/TCP", "8443/TCP", "8443/UDP", "ICMP"];
    assert.deepEqual(
      traffic.filter((one) => ask(index, ["y/a", "x/server"], one).kind === "denied"),
      ["8080/TCP", "9090/TCP", "8443/UDP"],
    );
  });

  it("CNP-07: a rule that cannot be read accepts nobody, or denies everyone", () => {
    const unreadable = to("", { domainNames: ["example.org"] });
    const ends = ["x/a", "192.0.2.1"] as const;
    const withAction = (action: string) => [
      policy("a", "Admin", 0, { ...unreadable, action }),
      policy("b", "Admin", 1, to("Deny", { networks: ["192.0.2.0/24"] })),
    ];
    assert.equal(kind(withAction("Accept"), ends), "denied", "the next policy decides");
    assert.equal(kind(withAction("Accept"), ["x/a", "y/a"]), "allowed");
    for (const action of ["Deny", "Pass"]) {
      assert.equal(kind(withAction(action), ["x/a", "y/a"]), "denied");
      const verdict = ask(indexOf([...threeByThree(), ...withAction(action)]), ["x/a", "y/a"]);
      assert.ok(verdict.kind === "denied" && verdict.egress.decision.type === "cluster rule");
      assert.match(verdict.egress.decision.rule.unreadable ?? "", /domainNames/);
    }
  });

  it("CNP-08: policies do not apply to a pod's traffic to its own address, except through a Service", () => {
    const index = indexOf([...threeByThree(), policy("a", "Admin", 0, from("Deny", X))]);
    assert.equal(ask(index, ["x/a", "x/a"]).kind, "allowed");
    assert.equal(ask(index, ["x/a", "x/a"], "80/TCP", { isThroughService: true }).kind, "denied");
  });

  it("CNP-08: pods of the host's network are neither subject nor peer, and a pod's own node always reaches it", () => {
    const host = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "host", namespace: "x" },
      spec: { hostNetwork: true, nodeName: "node-y" },
    };
    const index = indexOf([...threeByThree(), host, policy("a", "Admin", 0, from("Deny"))]);
    assert.equal(ask(index, ["y/a", "x/host"]).kind, "allowed");
    assert.equal(ask(index, ["x/host", "x/a"]).kind, "allowed");
    const closed = indexOf([...threeByThree(), policy("a", "Admin", 0, { action: "Deny", from: [{}] })]);
    assert.deepEqual(
      allowed(closed, [
        ["node/node-x", "x/a"],
        ["node/node-y", "x/a"],
      ]),
      ["node/node-x -> x/a"],
    );
  });
});
