import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createLab } from "../lab/lab.ts";
import { memoryFiles, runCli } from "../support/cli/cli.ts";
import { normalListing } from "../support/nftables/listing.ts";
import { requireKernel } from "../support/privilege.ts";

describe("rules in the kernel", () => {
  before(function () {
    requireKernel(this);
  });

  it("RULES-01: nft loads the printed text in an empty namespace, and lists the same", async () => {
    const fixture = (name: string): string => readFileSync(`test/fixtures/cli/rules/${name}`, "utf8");
    const files = memoryFiles({ "all/1.yaml": fixture("cluster.yaml"), "all/2.yaml": fixture("policies.yaml") });
    const args = ["rules", "-f", "all/1.yaml", "-f", "all/2.yaml", "--node", "worker-1"];
    const { out, code } = await runCli(args, files);
    assert.equal(code, 0);
    using lab = createLab("cli-rules");
    const node = lab.namespace("node");
    node.exec("nft", ["-c", "-f", "-"], out);
    assert.equal(node.exec("nft", ["list", "tables"]), "");
    node.exec("nft", ["-f", "-"], out);
    const bare = out.replaceAll(/^#.*\n/gm, "").trim();
    const [bridge = "", inet = "", policies = ""] = bare.split(/^(?=table inet )/m);
    for (const [family, name, text] of [
      ["bridge", "drawbridge", bridge],
      ["inet", "drawbridge", inet],
      ["inet", "drawbridge-policy", policies],
    ] as const) {
      const listing = node.exec("nft", ["-y", "list", "table", family, name]);
      assert.equal(normalListing(listing), normalListing(`${text.trim()}\n`));
    }
    assert.match(policies, /goto ingress_.*counter drop comment "isolated by shop\/front-only"/s);
  });
});
