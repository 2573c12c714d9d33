import assert from "node:assert/strict";
import { accepted, manifest, refusal } from "./objects.ts";

const policy = (spec: unknown) => manifest("NetworkPolicy", { spec });

describe("objects/gate of NetworkPolicy", () => {
  it("DAEMON-01: policy types default to Ingress, and to both if there is an egress rule", () => {
    const types = (spec: object) => accepted(policy(spec)).object["policyTypes"];
    assert.deepEqual(types({}), ["Ingress"]);
    assert.deepEqual(types({ egress: [] }), ["Ingress"]);
    assert.deepEqual(types({ egress: [{}] }), ["Egress", "Ingress"]);
    assert.deepEqual(types({ policyTypes: ["Egress"], ingress: [{}] }), ["Egress"]);
  });

  it("DAEMON-01: from and client-node's _from mean the same, and a rule with both is omitted", () => {
    const peers = [{ podSelector: { matchLabels: { app: "web" } } }];
    const [raw, typed] = [{ from: peers }, { _from: peers }].map(
      (rule) => accepted(policy({ ingress: [rule] })).object,
    );
    assert.deepEqual(typed, raw);
    assert.deepEqual(raw?.["ingress"], [
      {
        index: 0,
        peers: [
          {
            type: "pods",
            index: 0,
            podSelector: { matchLabels: { app: "web" }, matchExpressions: [] },
            namespaceSelector: undefined,
          },
        ],
        ports: undefined,
      },
    ]);
    const both = accepted(policy({ ingress: [{ from: peers, _from: peers }] }));
    assert.deepEqual(both.object["ingress"], []);
    assert.match(both.problems[0] ?? "", /spec\.ingress\[0\]\._from: "both from and _from"/);
  });

  it("DAEMON-01: an invalid peer or port allows less, never more", () => {
    const invalid = [
      {},
      { podSelector: {}, ipBlock: { cidr: "10.0.0.0/8" } },
      { ipBlock: { cidr: "10.0.0.0/8", except: ["11.0.0.0/16"] } },
      { ipBlock: { cidr: "10.0.0.0/8", except: ["nonsense"] } },
      { ipBlock: { cidr: "::ffff:10.0.0.0/104" } },
      { ipBlock: { cidr: "::/0", except: ["::ffff:10.0.0.0/104"] } },
      { podSelector: { matchExpressions: [{ key: "app", operator: "Is", values: ["web"] }] } },
      { podSelector: { matchExpressions: [{ key: "app", operator: "In", values: [] }] } },
      "everyone",
    ];
    for (const peer of invalid) {
      const { object, problems } = accepted(policy({ ingress: [{ from: [peer] }] }));
      assert.deepEqual(object["ingress"], [{ index: 0, peers: [], ports: undefined }], JSON.stringify(peer));
      assert.equal(problems.length, 1, JSON.stringify(peer));
    }
    for (const port of [{ port: 0 }, { port: "No" }, { endPort: 5 }, { port: 9, endPort: 8 }, { protocol: "ICMP" }]) {
      const { object } = accepted(policy({ egress: [{ ports: [port] }] }));
      assert.deepEqual(object["egress"], [{ index: 0, peers: undefined, ports: [] }], JSON.stringify(port));
    }
  });

  it("DAEMON-01 POL-73: a policy with more rules than are read allows nothing and still isolates", () => {
    const rules = Array.from({ length: 65_537 }, () => ({}));
    for (const [spec, types] of [
      [{ ingress: rules }, ["Ingress"]],
      [{ egress: rules }, ["Egress", "Ingress"]],
    ] as const) {
      const { object, problems } = accepted(policy(spec));
      assert.deepEqual([object["policyTypes"], object["ingress"], object["egress"]], [types, [], []]);
      assert.match(problems.join(), /65537 rules; expected at most 65536 \(none of them allows anything\)$/);
    }
  });

  it("DAEMON-01: a policy with an unreadable podSelector is refused", () => {
    assert.match(
      refusal(policy({ podSelector: { matchLabels: { app: 1 } } })),
      /^NetworkPolicy default\/web: spec\.pod/,
    );
  });

  it("DAEMON-01 POL-73: a policy with unreadable types isolates in both directions, and unreadable rules allow nothing", () => {
    const both = ["Egress", "Ingress"];
    for (const [spec, types, problem] of [
      [
        { policyTypes: ["ingress"] },
        both,
        /policyTypes\[0\]: "ingress"; expected Ingress or Egress \(it isolates in both/,
      ],
      [
        { policyTypes: ["Ingress", "Ingress", "Ingress"] },
        both,
        /policyTypes: "3 elements"; expected at most 2 \(it isol/,
      ],
      [{ policyTypes: "Ingress" }, both, /policyTypes: "Ingress"; expected a list \(it isolates in both directions\)$/],
      [{ ingress: {} }, ["Ingress"], /ingress: an object; expected a list \(none of them allows anything\)$/],
      [{ egress: { to: [] } }, both, /egress: an object; expected a list \(none of them allows anything\)$/],
    ] as const) {
      const { object, problems } = accepted(policy(spec));
      assert.deepEqual([object["policyTypes"], object["ingress"], object["egress"]], [types, [], []]);
      assert.equal(problems.length, 1, problems.join("\n"));
      assert.match(problems.join(), problem);
    }
  });

  it("POL-21: a label in a selector without a value is the empty text, as for the API server, and still a requirement", () => {
    const selector = { matchLabels: { app: null, tier: "web" } };
    const { object } = accepted(
      policy({ podSelector: selector, ingress: [{ from: [{ namespaceSelector: selector }] }] }),
    );
    const read = { matchLabels: { app: "", tier: "web" }, matchExpressions: [] };
    assert.deepEqual(object["podSelector"], read);
    assert.match(JSON.stringify(object["ingress"]), /"namespaceSelector":{"matchLabels":{"app":"","tier":"web"}/);
  });

  it("DAEMON-01: policies of kinds and groups that other programs enforce are refused", () => {
    for (const [kind, apiVersion] of [
      ["NetworkPolicy", "v1"],
      ["NetworkPolicy", "extensions/v1beta1"],
      ["GlobalNetworkPolicy", "projectcalico.org/v3"],
      ["CiliumClusterwideNetworkPolicy", "cilium.io/v2"],
    ]) {
      const problem = refusal({ ...manifest("NetworkPolicy"), kind, apiVersion });
      assert.match(problem, /: Drawbridge does not enforce it; use NetworkPolicy of networking\.k8s\.io\/v1$/);
      assert.ok(problem.includes(`${kind} of "${apiVersion}"`), problem);
    }
  });

  it("POL-33 POL-51: upstream 49 and 50: ports that the API server refuses are refused, and those that it takes are taken", () => {
    const ofPort = (port: object): boolean => accepted(policy({ egress: [{ ports: [port] }] })).problems.length === 0;
    for (const port of [{ port: 80, endPort: 80 }, { port: 1, endPort: 65_535, protocol: "SCTP" }, { port: "web" }]) {
      assert.ok(ofPort(port), JSON.stringify(port));
    }
    const refused = [
      { endPort: 90 },
      { port: "web", endPort: 90 },
      { port: 80, endPort: 79 },
      { port: 80, endPort: 65_536 },
      { port: "80" },
      { port: "a-name-much-too-long" },
      { port: 80.5 },
      { protocol: "tcp" },
      { protocol: "" },
    ];
    for (const port of refused) assert.ok(!ofPort(port), JSON.stringify(port));
  });

  const named = (value: string, spec: object = { policyTypes: ["Egress"] }) =>
    accepted(manifest("NetworkPolicy", { spec }, { annotations: { "drawbridge.dev/egress-domain-names": value } }));

  it("NAME-13: the annotation adds a rule for each port after those of egress, and none without it", () => {
    const spec = { egress: [{ ports: [{ port: 53, protocol: "UDP" }] }] };
    const { object, problems } = named("API.example.com:443 *.example.org:443/TCP, ntp.example.net:123/UDP a.b.", spec);
    const [, ...added] = object["egress"] as readonly Record<string, unknown>[];
    const rule = (index: number, names: readonly string[], port?: readonly [string, number]) => ({
      index,
      peers: [{ type: "names", index: 0, names }],
      ports: port && [{ index: 0, protocol: port[0], port: port[1], endPort: undefined }],
    });
    assert.deepEqual(added, [
      rule(1, ["api.example.com", "*.example.org"], ["TCP", 443]),
      rule(2, ["ntp.example.net"], ["UDP", 123]),
      rule(3, ["a.b"]),
    ]);
    assert.deepEqual(problems, []);
    assert.equal((accepted(policy(spec)).object["egress"] as readonly unknown[]).length, 1);
  });

  it("NAME-13: an entry that cannot be read is reported and allows nothing, and the others stay", () => {
    const bad = "com a.b:0 a.b:70000 a.b:80/ICMP a.b:http web.shop.svc.cluster.local:80 10.0.0.1:80 a.b:80-90";
    const { object, problems } = named(`${bad} ok.example.com:80`);
    assert.equal(problems.length, bad.split(" ").length, problems.join());
    const [only, ...others] = object["egress"] as readonly Record<string, unknown>[];
    assert.deepEqual([only?.["peers"], others], [[{ type: "names", index: 0, names: ["ok.example.com"] }], []]);
  });

  it("NAME-13: a policy that does not restrict egress is reported, and gets no direction by the annotation", () => {
    const { object, problems } = named("ok.example.com:80", { policyTypes: ["Ingress"] });
    assert.deepEqual(object["policyTypes"], ["Ingress"]);
    assert.match(problems.join(), /policyTypes has no Egress/);
  });
});
