import assert from "node:assert/strict";
import * as fc from "fast-check";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../../kernel/ip/cidr.ts";
import { PROTOCOLS } from "../../../../../objects/protocol.ts";
import { nameGroup, nodeGroup, podGroup, rangeGroup } from "../../../../../policyd/policies/compile/peer_groups.ts";
import { firstMatch, type PolicedFlow } from "../../../../../policyd/policies/compile/profile_verdict.ts";
import type { PeerGroup, PortGroup, ProfileRule } from "../../../../../policyd/policies/compile/profile.ts";

type View = Parameters<typeof firstMatch<string>>[3];

const OWN = "10.0.0.1";
const OUTSIDE = "198.51.100.7";
/** The members at addresses: one, two, or nobody. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  [OWN]: ["own"],
  "10.0.0.2": ["a"],
  "10.0.0.3": ["b"],
  "10.0.0.4": ["a", "b"],
  "192.0.2.1": ["node"],
  [OUTSIDE]: [],
  "2001:db8::1": [],
};
const AT = new Map(Object.entries(MEMBERS).map(([text, members]) => [parseAddress(text), members]));
const label = (value: string) => ({ matchLabels: { is: value }, matchExpressions: [] });
const GROUPS = ["a", "b", "own"].map((one) => podGroup({ podSelector: label(one), namespaceSelector: undefined }, "x"));
const NODES = nodeGroup(label("node"));
const HAS: Readonly<Record<string, readonly string[]>> = {
  a: [GROUPS[0]?.key ?? "", GROUPS[1]?.key ?? ""],
  b: [GROUPS[1]?.key ?? ""],
  own: [GROUPS[2]?.key ?? ""],
  node: [NODES.key],
};
const IDENTITIES = new Map(Object.keys(HAS).map((member) => [member, {}]));

const VIEW: View = {
  membersAt: (address) => AT.get(address) ?? [],
  isInGroup: ({ key }, member) => HAS[member]?.includes(key) === true,
  groupsFollow: (member) => [IDENTITIES.get(member) ?? {}, undefined],
  portNames: (member, _protocol, port) => new Set(port === 80 && member !== "b" ? ["web", "http"] : ["web"]),
  knownNames: () => ["known.example.com", "a.other.org"],
};

const peer: fc.Arbitrary<PeerGroup> = fc.constantFrom(
  ...GROUPS,
  NODES,
  rangeGroup([parseCidr("10.0.0.0/8")], [parseCidr("10.0.0.2/32")]),
  rangeGroup([parseCidr("10.0.0.2/31"), parseCidr("2001:db8::/64")]),
  rangeGroup([parseCidr("0.0.0.0/0")]),
  nameGroup(["known.example.com"]),
  nameGroup(["other.example.com", "*.other.org"]),
  nameGroup(["*.known.example.com"]),
);
const port: fc.Arbitrary<PortGroup> = fc.oneof(
  fc
    .record({ protocol: fc.constantFrom(...PROTOCOLS), first: fc.constantFrom(0, 80, 443), size: fc.nat(400) })
    .map(({ protocol, first, size }) => ({ type: "range" as const, protocol, first, last: first + size })),
  fc.record({
    type: fc.constant("name" as const),
    protocol: fc.constantFrom(undefined, ...PROTOCOLS),
    name: fc.constantFrom("web", "http", "other"),
  }),
);
const rule: fc.Arbitrary<ProfileRule> = fc.record({
  peers: fc.option(fc.array(peer, { maxLength: 3 }), { nil: undefined }),
  ports: fc.option(fc.array(port, { maxLength: 3 }), { nil: undefined }),
  action: fc.constantFrom("allow" as const, "deny" as const, "pass" as const),
  origin: fc.record({ kind: fc.constant("NetworkPolicy" as const), policy: fc.constant("x/p"), index: fc.nat() }),
});
const flow: fc.Arbitrary<PolicedFlow> = fc.record({
  source: fc.constantFrom(...AT.keys()),
  destination: fc.constantFrom(...AT.keys()),
  protocol: fc.constantFrom(undefined, ...PROTOCOLS),
  port: fc.constantFrom(1, 80, 443, 480),
});

/** The largest policies: each rule is about a group of pods, one of which has the peer, and about a port. */
function largest(portOf: (place: number) => number): readonly ProfileRule[] {
  return Array.from({ length: 8192 }, (_, index) => ({
    peers: [podGroup({ podSelector: label(`p${index}`), namespaceSelector: undefined }, "x")],
    ports: [{ type: "range", protocol: "TCP", first: portOf(index), last: portOf(index) + 1 }],
    action: "allow",
    origin: { kind: "NetworkPolicy", policy: "x/p", index },
  }));
}

describe("policyd/policies/compile: the rule that matches a flow", () => {
  it("POL-81 METRIC-06: of random rules, the first one counts that would match a flow by itself", () => {
    let found = 0;
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 70 }), fc.array(flow, { maxLength: 20 }), (rules, flows) => {
        for (const one of flows) {
          for (const direction of ["egress", "ingress"] as const) {
            const expected = rules.find((each) => firstMatch([each], direction, one, VIEW) !== undefined);
            assert.equal(firstMatch(rules, direction, one, VIEW), expected);
            if (expected !== undefined) found++;
          }
        }
      }),
    );
    assert.ok(found > 100, `${found} matches`);
  });

  it("SHARE-08 POL-84: thousands of flows of a pod with 8,192 rules ask for a peer's groups only once, and again after its namespace has changed", () => {
    const rules = largest((place) => 2 * place);
    const last = rules.at(-1)?.peers?.[0];
    let [asked, looked] = [0, 0];
    let namespaceLabels = {};
    const view: View = {
      ...VIEW,
      membersAt: (address) => {
        looked++;
        return VIEW.membersAt(address);
      },
      isInGroup: (group) => {
        asked++;
        return group === last;
      },
      groupsFollow: (member) => [IDENTITIES.get(member) ?? {}, namespaceLabels],
    };
    const [source, destination] = [parseAddress(OWN), parseAddress("10.0.0.2")];
    const allowed = (): number =>
      Array.from({ length: 8192 }, (_, i) => ({ source, destination, protocol: "TCP", port: 2 * i }) as const).filter(
        (one) => firstMatch(rules, "egress", one, view) !== undefined,
      ).length;
    assert.equal(allowed(), 1);
    // Once for the index, and once for the rule that was found.
    assert.deepEqual([asked, looked], [8192 + 1, 8192]);
    namespaceLabels = {};
    assert.equal(allowed(), 1);
    assert.equal(asked, 2 * (8192 + 1));
  });
});
