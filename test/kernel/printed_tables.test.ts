import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";
import assert from "node:assert/strict";
import { parseAddress } from "../../kernel/ip/address.ts";
import { parseCidr } from "../../kernel/ip/cidr.ts";
import { rangeOf } from "../../kernel/ip/ranges.ts";
import type { Element, Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { podShareElement } from "../../policyd/node/masquerade/share_rules.ts";
import { attachedElements } from "../../policyd/node/tables/attached_addresses.ts";
import { tunnelPortElements } from "../../policyd/node/tables/other_tunnels.ts";
import { podRangeElement, tunnelEndElements, tunnelNodes } from "../../policyd/node/tables/tunnel_guard.ts";
import { nodeTables } from "../../policyd/node/tables/tables.ts";
import { attachmentElements } from "../../policyd/node/attachment_elements.ts";
import { keptElement } from "../../policyd/protection/nat_exemption.ts";
import type { ProtectedSocket } from "../../objects/socket_refusal.ts";
import { NODE_CONFIGURATION } from "../support/guard/guarded_node.ts";
import { attachmentRecord } from "../support/cni/attachment_record.ts";
import { normalListing } from "../support/nftables/listing.ts";
import { readFileSync } from "node:fs";
import { INET_TABLE, joined } from "../../policyd/ruleset/table_part.ts";
import { sourceHooks } from "../../policyd/services/rules/check_part.ts";
import { TimeoutClasses } from "../../policyd/services/affinity/timeout_numbers.ts";
import { localPodElements, nodePortElements } from "../../policyd/services/elements/node_elements.ts";
import { services } from "../../policyd/services/rules/services_part.ts";
import { compileAll, elementsOf, readScenario, SERVICE_RULES } from "../support/services/scenario.ts";
import * as fc from "fast-check";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "../../policyd/policies/compile/options.ts";
import { storeOf } from "../support/evaluate/store.ts";
import { assertSame } from "../support/nftables/comparison.ts";
import { policyCases } from "../support/policy/arbitrary_cluster.ts";
import { CompiledCluster } from "../support/policy/compiled_cluster.ts";
import { compiledYaml } from "../support/policy/compiled_text.ts";
import { manifestsOf } from "../support/policy/raw_cluster.ts";
import { EVERYTHING, SHOP } from "../support/policy/shop.ts";
import { memoryFiles, runCli } from "../support/cli/cli.ts";

const SHARE = { first: 1024, last: 3000 };
/** The one set that stays empty: its elements lead to chains that come and go. */
const EMPTY = "port_shares";

const ELEMENTS: ReadonlyMap<string, readonly Element[]> = new Map([
  ["pod4", [{ key: ["dbv0a1b2c3d4e5f", "0a:58:0a:f4:01:07", parseAddress("10.244.1.7")], comment: "default/web" }]],
  ["pod6", [{ key: ["dbv0a1b2c3d4e5f", "0a:58:0a:f4:01:07", parseAddress("fd00:244:1::7")] }]],
  ["on_link_pair4", [{ key: [parseAddress("192.0.2.1"), parseAddress("192.0.2.1")] }]],
  ["on_link_pair6", [{ key: [parseAddress("2001:db8::1"), parseAddress("2001:db8::1")] }]],
  ...[keptElement, (socket: ProtectedSocket) => podShareElement(socket.address, [SHARE])].flatMap((elementOf) =>
    ["192.0.2.1", "2001:db8::1"].map((text) => {
      const { set, element } = elementOf({
        address: parseAddress(text),
        protocol: "TCP",
        port: 6443,
        owner: "the API server",
      });
      return [set, [element]] as const;
    }),
  ),
  ["podmac", [{ key: ["dbv0a1b2c3d4e5f", "0a:58:0a:f4:01:07"] }]],
]);

const RULED = attachmentRecord({
  portMappings: [
    { hostPort: 80, containerPort: 8080, protocol: "tcp" },
    { hostPort: 53, containerPort: 53, protocol: "udp", hostIp: parseAddress("192.0.2.1") },
    { hostPort: 53, containerPort: 53, protocol: "sctp", hostIp: parseAddress("2001:db8::1") },
  ],
  ipMasq: true,
  policyd: {
    serviceCidrs: ["10.96.0.0/12", "fd00:96::/112"].map((text) => parseCidr(text)),
    nonMasqueradeCidrs: ["10.244.0.0/16", "192.0.2.0/24", "fd00:244::/32"].map((text) => parseCidr(text)),
  },
});
const ADDRESSES = ["192.0.2.1", "2001:db8::1"].map((text) => parseAddress(text));
const CLAIMS = Map.groupBy(
  [
    ...attachmentElements(RULED).filter(({ table }) => table.family === "inet"),
    ...attachedElements(ADDRESSES),
    ...["10.244.1.0/24", "fd00:244:1::/64"].map((text) => podRangeElement(rangeOf(parseCidr(text)))),
    ...tunnelPortElements([6784]),
    ...tunnelEndElements({ internal: ADDRESSES, external: [], implied: [] }, false),
  ],
  ({ set }) => set,
);

/** Returns the elements that one pod has in a set. */
function elementsIn(set: string): readonly Element[] {
  return ELEMENTS.get(set) ?? CLAIMS.get(set)?.map(({ element }) => element) ?? [];
}

const SCENARIOS = ["cluster_ip", "external", "local_policy", "none", "affinity"] as const;

const CLUSTERS = 4;
const SEED = 7;

const ALL_OPTIONS: PolicyOptions = {
  ...DEFAULT_POLICY_OPTIONS,
  nodeLocalDNS: ["169.254.20.10", "fd00::a", "fd00::b"].map((text) => parseAddress(text)),
  policyReset: true,
  dropLog: true,
};

describe("tables in the kernel: nft lists them as we print them, and loads its own listing again", function () {
  this.timeout(120_000);
  let written: LabNamespace;
  let other: LabNamespace;
  let nftables: NftablesSocket;

  before(function () {
    const lab = suiteLab(this, "printed-tables");
    [written, other] = [lab.namespace("written"), lab.namespace("other")];
    nftables = written.inside(() => new NftablesSocket(lab.calls));
  });
  after(() => nftables?.close());

  it("the node's tables, with an element in each set", () => {
    for (const table of nodeTables(NODE_CONFIGURATION)) {
      const elements = new Map(table.sets.map(({ name }) => [name, elementsIn(name)]));
      // Only packets fill the dynamic sets.
      for (const { name, isDynamic } of table.sets)
        assert.ok(isDynamic || name === EMPTY || elementsIn(name).length > 0, `something is in ${name}`);
      assertSame(nftables, written, other, { table, elements });
    }
  });

  for (const tcpReset of [false, true]) {
    it(`the tables of Services, ${tcpReset ? "with" : "without"} tcpReset`, () => {
      const timeouts = new TimeoutClasses();
      timeouts.replace([1, 2, 10_800, 86_399].map((seconds) => [`default/of-${seconds}`, seconds]));
      const rules = timeouts.takeRules();
      const claims = [
        ...SCENARIOS.flatMap((name) => {
          const file = new URL(`../unit/policyd/services/compile/scenarios/${name}.yaml`, import.meta.url);
          const compiled = compileAll(readScenario(readFileSync(file, "utf8")), "node1");
          return [...compiled.values()].flatMap((service) => service.claims);
        }),
        ...localPodElements(["10.244.1.7", "fd00:244:1::7"].map((text) => parseAddress(text))),
        ...["10.244.1.0/24", "10.244.3.0/24", "fd00:244::/48"].map((text) => podRangeElement(rangeOf(parseCidr(text)))),
        ...nodePortElements([], []),
        ...rules.flatMap((one) => one.claims),
      ];
      const { sets, chains } = joined([tunnelNodes(), ...services({ ...SERVICE_RULES, tcpReset })]);
      const table: Table = {
        ...INET_TABLE,
        sets,
        chains: [...chains, ...sourceHooks, ...rules.flatMap((one) => one.chains)],
      };
      assertSame(nftables, written, other, { table, elements: elementsOf(claims) });
    });
  }

  it("the table of policies, with profiles of every kind", () => {
    for (const [index, { cluster }] of fc.sample(policyCases, { numRuns: CLUSTERS, seed: SEED }).entries()) {
      const options = index % 2 === 0 ? DEFAULT_POLICY_OPTIONS : ALL_OPTIONS;
      for (const flattenAbove of [Number.POSITIVE_INFINITY, 0]) {
        const compiled = new CompiledCluster(storeOf(manifestsOf(cluster)), { ...options, flattenAbove });
        assertSame(nftables, written, other, compiled.node("node1"));
      }
    }
    const all = SHOP + EVERYTHING;
    for (const flattenAbove of [Number.POSITIVE_INFINITY, 0]) {
      assertSame(nftables, written, other, compiledYaml(all, { ...ALL_OPTIONS, flattenAbove }));
    }
  });

  it("RULES-01: what `drawbridge rules` prints", async () => {
    const fixture = (name: string): string => readFileSync(`test/fixtures/cli/rules/${name}`, "utf8");
    const files = memoryFiles({ "all/1.yaml": fixture("cluster.yaml"), "all/2.yaml": fixture("policies.yaml") });
    const args = ["rules", "-f", "all/1.yaml", "-f", "all/2.yaml", "--node", "worker-1"];
    const { out, code } = await runCli(args, files);
    assert.equal(code, 0);
    written.exec("nft", ["-f", "-"], `flush ruleset\n${out}`);
    const bare = out.replaceAll(/^#.*\n/gm, "").trim();
    const [bridge = "", inet = "", policies = ""] = bare.split(/^(?=table inet )/m);
    for (const [family, name, text] of [
      ["bridge", "drawbridge", bridge],
      ["inet", "drawbridge", inet],
      ["inet", "drawbridge-policy", policies],
    ] as const) {
      const listing = written.exec("nft", ["-y", "list", "table", family, name]);
      assert.equal(normalListing(listing), normalListing(`${text.trim()}\n`));
    }
    assert.match(policies, /goto ingress_.*counter drop comment "isolated by shop\/front-only"/s);
  });
});
