import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { parseAddress } from "../../kernel/ip/address.ts";
import { parseCidr } from "../../kernel/ip/cidr.ts";
import { tableChanges } from "../../kernel/nftables/encode/change.ts";
import type { Table } from "../../kernel/nftables/model/object.ts";
import { rangeOf } from "../../kernel/ip/ranges.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { formatTable } from "../../kernel/nftables/text/text.ts";
import { podRangeElement, tunnelNodes } from "../../policyd/node/tables/tunnel_guard.ts";
import { INET_TABLE, joined } from "../../policyd/ruleset/table_part.ts";
import { sourceHooks } from "../../policyd/services/rules/check_part.ts";
import { TimeoutClasses } from "../../policyd/services/affinity/timeout_numbers.ts";
import { localPodElements, nodePortElements } from "../../policyd/services/elements/node_elements.ts";
import { services } from "../../policyd/services/rules/services_part.ts";
import { createLab } from "../lab/lab.ts";
import { normalListing } from "../support/nftables/listing.ts";
import { requireKernel } from "../support/privilege.ts";
import { chainsOf, claimsOf } from "../support/services/timeout_rules.ts";
import { compileAll, elementsOf, readScenario, SERVICE_RULES } from "../support/services/scenario.ts";

const SCENARIOS = ["cluster_ip", "external", "local_policy", "none", "affinity"] as const;

describe("the tables of Services in the kernel", () => {
  before(function () {
    requireKernel(this);
  });

  for (const tcpReset of [false, true]) {
    it(`nft lists the tables as we print them, and loads its own listing again, ${tcpReset ? "with" : "without"} tcpReset`, () => {
      using lab = createLab("service-tables");
      const [node, copy] = [lab.namespace("node"), lab.namespace("copy")];
      const nftables = node.inside(() => new NftablesSocket(lab.calls));
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
        ...claimsOf(rules),
      ];
      const { sets, chains } = joined([tunnelNodes(), ...services({ ...SERVICE_RULES, tcpReset })]);
      const table: Table = { ...INET_TABLE, sets, chains: [...chains, ...sourceHooks, ...chainsOf(rules)] };
      const elements = elementsOf(claims);
      nftables.commit(tableChanges(table, elements));
      const list = ["-y", "list", "table", table.family, table.name];
      const listing = node.exec("nft", list);
      assert.equal(normalListing(listing), normalListing(formatTable(table, elements)));
      copy.exec("nft", ["-f", "-"], listing);
      assert.equal(normalListing(copy.exec("nft", list)), normalListing(listing));
      nftables.close();
    });
  }
});
