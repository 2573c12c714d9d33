import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createLab } from "../lab/lab.ts";
import { memoryFiles, runCli } from "../support/cli.ts";
import { normalListing } from "../support/nftables/listing.ts";
import { requireKernel } from "../support/privilege.ts";

describe("rules in the kernel", () => {
  before(function () {
    requireKernel(this);
  });

  it("RULES-03: nft takes the text in an empty namespace, and lists what is in it", async () => {
    const files = memoryFiles({ "cluster.yaml": readFileSync("test/fixtures/cli/rules/cluster.yaml", "utf8") });
    const { out, code } = await runCli(["rules", "-f", "cluster.yaml", "--node", "worker-1"], files);
    assert.equal(code, 0);
    using lab = createLab("cli-rules");
    const node = lab.namespace("node");
    node.exec("nft", ["-c", "-f", "-"], out);
    assert.equal(node.exec("nft", ["list", "tables"]), "");
    node.exec("nft", ["-f", "-"], out);
    const bare = out.replaceAll(/^#.*\n/gm, "").trim();
    const [bridge = "", inet = ""] = bare.split(/^(?=table inet )/m);
    for (const [family, text] of [
      ["bridge", bridge],
      ["inet", inet],
    ] as const) {
      const listing = node.exec("nft", ["-y", "list", "table", family, "drawbridge"]);
      assert.equal(normalListing(listing), normalListing(`${text.trim()}\n`));
    }
  });
});
