import assert from "node:assert/strict";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { judge } from "../../../../objects/gate/gate.ts";
import { PolicyNotices } from "../../../../policyd/policies/status/policy_notices.ts";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { accepted, manifest, refusal } from "./objects.ts";

const spec = (parts: object) => ({ tier: "Admin", priority: 5, subject: { namespaces: {} }, ...parts });
const policy = (parts: object) => manifest("ClusterNetworkPolicy", { spec: spec(parts) });
const everything = { matchLabels: {}, matchExpressions: [] };
const everyone = { type: "pods", index: 0, namespaceSelector: everything, podSelector: undefined };

describe("objects/gate of ClusterNetworkPolicy", () => {
  it("CNP-09: a policy whose tier, priority or subject is unreadable is refused", () => {
    const { object } = accepted(policy({ tier: "Baseline", priority: 1000 }));
    assert.deepEqual(object, {
      kind: "ClusterNetworkPolicy",
      key: "web",
      name: "web",
      uid: "",
      generation: 0,
      tier: "Baseline",
      priority: 1000,
      subject: everyone,
      ingress: [],
      egress: [],
    });
    const refused: readonly (readonly [object, RegExp])[] = [
      [{ tier: undefined }, /spec\.tier: missing; expected Admin or Baseline/],
      [{ tier: "NetworkPolicy" }, /spec\.tier/],
      [{ priority: undefined }, /spec\.priority: missing; expected an integer from 0 to 1000/],
      [{ priority: 1001 }, /spec\.priority: 1001/],
      [{ priority: -1 }, /spec\.priority: -1/],
      [{ subject: undefined }, /spec\.subject: "nothing"; expected exactly one of namespaces, pods/],
      [{ subject: { namespaces: {}, pods: { podSelector: {} } } }, /spec\.subject: "namespaces, pods"/],
      [{ subject: { nodes: {} } }, /spec\.subject: "nodes"/],
      [{ subject: { pods: { namespaceSelector: {} } } }, /spec\.subject\.pods\.podSelector: missing/],
      [{ subject: { namespaces: { matchLabels: { a: 1 } } } }, /spec\.subject\.namespaces\.matchLabels/],
      [{ ingress: Array.from({ length: 26 }, () => ({})) }, /spec\.ingress: "26 elements"; expected at most 25/],
    ];
    for (const [parts, message] of refused) assert.match(refusal(policy(parts)), message, JSON.stringify(parts));
  });

  it("CNP-04 CNP-05: a rule is read with every kind of peer and protocol", () => {
    const rule = {
      name: "all",
      action: "Accept",
      to: [
        { namespaces: {} },
        { pods: { podSelector: { matchLabels: { app: "web" } } } },
        { nodes: {} },
        { networks: ["10.1.2.3/16", "fd00::/8"] },
      ],
      protocols: [
        { tcp: { destinationPort: { number: 80 } } },
        { udp: { destinationPort: { range: { start: 53, end: 54 } } } },
      ],
    };
    const { object, problems } = accepted(policy({ egress: [rule] }));
    assert.deepEqual(problems, []);
    assert.deepEqual(object["egress"], [
      {
        index: 0,
        name: "all",
        action: "Accept",
        unreadable: undefined,
        peers: [
          everyone,
          { ...everyone, index: 1, podSelector: { matchLabels: { app: "web" }, matchExpressions: [] } },
          { type: "nodes", index: 2, selector: everything },
          { type: "networks", index: 3, cidrs: [parseCidr("10.1.0.0/16"), parseCidr("fd00::/8")] },
        ],
        ports: [
          { index: 0, protocol: "TCP", port: 80, endPort: undefined },
          { index: 1, protocol: "UDP", port: 53, endPort: 54 },
        ],
      },
    ]);
    const named = { action: "Deny", from: [{ namespaces: {} }], protocols: [{ destinationNamedPort: "web" }] };
    assert.deepEqual(accepted(policy({ ingress: [named] })).object["ingress"], [
      {
        index: 0,
        name: undefined,
        action: "Deny",
        unreadable: undefined,
        peers: [everyone],
        ports: [{ index: 0, protocol: undefined, port: "web", endPort: undefined }],
      },
    ]);
  });

  const everyPod = [{ namespaces: {} }];
  const unreadable: readonly (readonly [string, object])[] = [
    ["a name without a dot", { to: [{ domainNames: ["example"] }] }],
    ["a name of the cluster", { to: [{ domainNames: ["api.default.svc.cluster.local"] }] }],
    ["no domain name", { to: [{ domainNames: [] }] }],
    ["26 domain names", { to: [{ domainNames: Array.from({ length: 26 }, (_, i) => `a${i}.example.org`) }] }],
    ["a peer of a later API", { to: [{ namespaces: {} }, { services: {} }] }],
    ["an empty peer", { to: [{}] }],
    ["two members in a peer", { to: [{ namespaces: {}, networks: ["10.0.0.0/8"] }] }],
    ["no peers", { to: [] }],
    ["no list of peers", {}],
    ["26 peers", { to: Array.from({ length: 26 }, () => ({ namespaces: {} })) }],
    ["an invalid network", { to: [{ networks: ["10.0.0.0/8", "nonsense"] }] }],
    ["a network of IPv4-mapped addresses", { to: [{ networks: ["::ffff:10.0.0.0/104"] }] }],
    ["no network", { to: [{ networks: [] }] }],
    ["an invalid selector", { to: [{ namespaces: { matchExpressions: [{ key: "a", operator: "Is" }] } }] }],
    ["no protocols in their list", { to: everyPod, protocols: [] }],
    ["a protocol of a later API", { to: everyPod, protocols: [{ icmp: {} }] }],
    [
      "an attribute of a later API",
      { to: everyPod, protocols: [{ tcp: { destinationPort: { number: 80 }, flags: {} } }] },
    ],
    ["a protocol without a port", { to: everyPod, protocols: [{ tcp: {} }] }],
    ["port 0", { to: everyPod, protocols: [{ tcp: { destinationPort: { number: 0 } } }] }],
    ["a range of one", { to: everyPod, protocols: [{ tcp: { destinationPort: { range: { start: 80, end: 80 } } } }] }],
    ["a name beside networks", { to: [{ networks: ["10.0.0.0/8"] }], protocols: [{ destinationNamedPort: "web" }] }],
  ];
  for (const [what, rule] of unreadable) {
    it(`CNP-07: a rule with ${what} fails closed and is reported`, () => {
      const rules = ["Accept", "Deny", "Pass"].map((action) => ({ action, ...rule }));
      const { object, problems } = accepted(policy({ egress: rules }));
      const read = object["egress"] as readonly {
        readonly index: number;
        readonly action: string;
        readonly peers: unknown;
        readonly unreadable: unknown;
      }[];
      assert.deepEqual(
        read.map(({ index, action, peers }) => [index, action, peers]),
        [
          [0, "Accept", []],
          [1, "Deny", undefined],
          [2, "Deny", undefined],
        ],
      );
      assert.ok(read.every((one) => typeof one.unreadable === "string"));
      assert.equal(problems.length, 3);
      assert.match(problems[0] ?? "", /^ClusterNetworkPolicy web: spec\.egress\[0\].*\(the rule accepts nobody\)$/);
      assert.match(problems[2] ?? "", /^ClusterNetworkPolicy web: spec\.egress\[2\].*\(the rule denies everyone\)$/);
    });
  }

  it("CNP-07: an unreadable ingress rule, one without an action and one with networks deny everyone", () => {
    for (const rule of [
      "Deny",
      {},
      { action: "Allow", from: everyPod },
      { action: "Deny", from: [{ networks: ["::/0"] }] },
    ]) {
      const { object } = accepted(policy({ ingress: [rule] }));
      const [read] = object["ingress"] as readonly Record<string, unknown>[];
      assert.deepEqual([read?.["action"], read?.["peers"], read?.["ports"]], ["Deny", undefined, undefined]);
    }
  });

  it("POL-53: a daemon without policies says that it enforces none, one with policies that they are in force", () => {
    const verdict = judge(policy({}));
    assert.ok(verdict.type === "accepted");
    const { object } = verdict;
    const said = (isEnforced: boolean): readonly string[] => {
      const logger = recordingLogger();
      const notices = new PolicyNotices({ logger, events: recordingNotices(), isEnforced });
      notices.apply([{ type: "set", kind: object.kind, key: object.key, object }]);
      notices.synced();
      notices.rulesInForce();
      return [...logger.lines.map(({ message }) => message), ...notices.problems()];
    };
    assert.deepEqual(said(false), [
      "NetworkPolicy and ClusterNetworkPolicy are not enforced on this node",
      "policies: false: no policy is enforced on this node",
    ]);
    assert.deepEqual(said(true), ["NetworkPolicy and ClusterNetworkPolicy are in force on this node"]);
  });
});
