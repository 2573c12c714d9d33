import assert from "node:assert/strict";
import type { Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { Ruleset } from "../../policyd/ruleset/ruleset.ts";
import { recordingLogger } from "../support/recording_logger.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import { contentOf } from "../support/ruleset/content.ts";
import { sampleClaims, sampleTables } from "../support/ruleset/sample.ts";
import { requireKernel } from "../support/privilege.ts";

/** Objects that nft allows in our tables with names, or in a form, that ours never have. */
const odd = {
  "a chain of another alphabet": "add chain inet drawbridge _my.chain/1",
  "a chain of a long name": `add chain inet drawbridge ${"a".repeat(100)}`,
  "a set of another alphabet": "add set inet drawbridge _my.set/1 { type ipv4_addr; elements = { 192.0.2.1 }; }",
  "a map of another alphabet to a chain of one":
    "add chain inet drawbridge my.chain; add map inet drawbridge my.map { type ipv4_addr : verdict; elements = { 192.0.2.1 : jump my.chain }; }",
  "a block in a rule": "insert rule inet drawbridge forward jump { counter; accept; }",
  "a block with a set of its own":
    "add set inet drawbridge theirs { type ipv4_addr; }; insert rule inet drawbridge forward jump { ip saddr @theirs accept; }",
  "a block in a chain of theirs":
    "add chain inet drawbridge theirs; add rule inet drawbridge theirs jump { counter; accept; }",
  "an interface of another alphabet": 'add element bridge drawbridge sources { "we+ird" . 10.0.0.1 }',
  "an interface with what separates keys": 'add element bridge drawbridge sources { "a b|c" . 10.0.0.1 }',
} as const;

const OWNERS = 5;

describe("policyd/ruleset with objects that we would never write", () => {
  let lab: Lab | undefined;
  const tables: readonly Table[] = sampleTables();

  before(function () {
    requireKernel(this);
    lab = createLab("strangers");
  });
  after(() => lab?.destroy());

  for (const [index, [what, text]] of Object.entries(odd).entries()) {
    it(`DP-09: removes the object without blocking the next change: ${what}`, () => {
      const node = lab?.namespace(`node${index}`);
      assert.ok(node !== undefined);
      const kernel = node.inside(() => new NftablesSocket(node.calls));
      const options = { kernel, tables, clock: new FakeClock(), logger: recordingLogger() };
      const ruleset = new Ruleset({ ...options, minSyncPeriod: 0, syncPeriod: 3_600_000 });
      for (let i = 1; i <= OWNERS; i++) ruleset.claim(`o${i}`, sampleClaims(i, i));
      ruleset.start();
      const whole = tables.map((table) => contentOf(kernel, table));
      node.exec("nft", ["-f", "-"], text);
      ruleset.verify();
      assert.deepEqual(
        tables.map((table) => contentOf(kernel, table)),
        whole,
      );
      assert.ok(ruleset.status().repairs > 0);
      ruleset.claim("next", sampleClaims(OWNERS + 1, 1));
      assert.equal(ruleset.flush(), true, ruleset.status().lastError);
      const { failures, replacements } = ruleset.status();
      assert.deepEqual([failures, replacements], [0, tables.length], "no table was replaced");
      assert.doesNotMatch(node.ruleset(), /jump \{|my\.|theirs|we\+ird|a b/);
      kernel.close();
    });
  }
});
