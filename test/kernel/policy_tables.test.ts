import * as fc from "fast-check";
import { parseAddress } from "../../kernel/ip/address.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "../../policyd/policies/compile/options.ts";
import { createLab } from "../lab/lab.ts";
import { storeOf } from "../support/evaluate/store.ts";
import { assertSame } from "../support/nftables/comparison.ts";
import { policyCases } from "../support/policy/arbitrary_cluster.ts";
import { CompiledCluster } from "../support/policy/compiled_cluster.ts";
import { compiledYaml } from "../support/policy/compiled_text.ts";
import { manifestsOf } from "../support/policy/raw_cluster.ts";
import { EVERYTHING, SHOP } from "../support/policy/shop.ts";
import { requireKernel } from "../support/privilege.ts";

const CLUSTERS = 4;
const SEED = 7;

const ALL_OPTIONS: PolicyOptions = {
  ...DEFAULT_POLICY_OPTIONS,
  nodeLocalDNS: ["169.254.20.10", "fd00::a", "fd00::b"].map((text) => parseAddress(text)),
  policyReset: true,
  dropLog: true,
};

describe("the table of policies in the kernel", function () {
  this.timeout(120_000);
  before(function () {
    requireKernel(this);
  });

  it("nft lists the policy table with profiles of every kind as we print it, and loads its own listing again", () => {
    using lab = createLab("policy-tables");
    const [written, other] = [lab.namespace("written"), lab.namespace("other")];
    const nftables = written.inside(() => new NftablesSocket(lab.calls));
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
    nftables.close();
  });
});
