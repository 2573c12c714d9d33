import assert from "node:assert/strict";
import { tableChanges } from "../../../../../kernel/nftables/encode/change.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { Element, Table } from "../../../../../kernel/nftables/model/object.ts";
import { formatTable } from "../../../../../kernel/nftables/text/text.ts";
import { withVersion } from "../../../../../policyd/ruleset/schema.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { policyTable } from "../../../../../policyd/policies/compile/policy_table.ts";
import { kernelOpening, OPENING_TABLE, openingTable } from "../../../../../policyd/policies/cuts/startup_rules.ts";

const PLAIN = withVersion(policyTable(DEFAULT_POLICY_OPTIONS));
const RESETTING = withVersion(policyTable({ ...DEFAULT_POLICY_OPTIONS, policyReset: true }));
const NOTHING = { isInForce: false, cut: [], settled: [] };

function setUp(found?: Table, elements: ReadonlyMap<string, readonly Element[]> = new Map()) {
  const kernel = new FakeNftables();
  if (found !== undefined) kernel.commit(tableChanges(found, elements));
  const opening = (table = PLAIN) =>
    kernelOpening({ kernel, commit: (changes) => kernel.commit(changes), bridge: "drawbridge0", policyTable: table });
  return { kernel, opening };
}

describe("policy/cuts: the rules before the first table", () => {
  const numbers = new Map([
    ["settled", [{ key: [7] }, { key: [0xffff_ffff] }]],
    ["cut", [{ key: [8] }]],
  ]);

  it("POL-82: the opening rules are for a node on which no policy rules are in force yet", () => {
    assert.deepEqual(setUp().opening().read(), NOTHING);
    const built = { ...PLAIN, chains: PLAIN.chains.filter(({ base }) => base === undefined) };
    assert.deepEqual(setUp(built).opening().read(), NOTHING, "a table that a daemon had not finished");
    assert.equal(setUp(PLAIN).opening().read().isInForce, true);
    assert.equal(setUp(PLAIN).opening(RESETTING).read().isInForce, true, "also of another configuration");
    assert.equal(setUp(RESETTING).opening(PLAIN).read().isInForce, true);
  });

  it("POL-82: the numbers of an earlier daemon's connections are found, whatever its configuration", () => {
    assert.deepEqual(setUp(RESETTING, numbers).opening(RESETTING).read(), {
      isInForce: true,
      cut: [8],
      settled: [7, 0xffff_ffff],
    });
    assert.deepEqual(setUp(RESETTING, numbers).opening().read().cut, []);
    const { comment: _version, ...stranger } = RESETTING;
    assert.deepEqual(setUp(stranger, numbers).opening(RESETTING).read().settled, [], "another program's table");
  });

  it("the opening rules are written also in place of those of an earlier daemon", () => {
    const { kernel, opening } = setUp();
    for (const daemon of ["earlier", "later"]) {
      opening().open();
      assert.ok(kernel.head(OPENING_TABLE) !== undefined, daemon);
    }
  });

  it("the opening rules label connections that begin on the bridge or lead to it, and drop nothing", () => {
    const text = formatTable(openingTable("drawbridge0"), new Map()).replaceAll("\t", "  ");
    assert.equal(
      text.trim(),
      `table inet drawbridge-policy-opening {
  comment "drawbridge schema of no version"
  chain forward {
    type filter hook forward priority -6; policy accept;
    iifname "drawbridge0" ct direction original ct label set 100
    oifname "drawbridge0" ct direction original ct label set 100
  }

  chain input {
    type filter hook input priority -6; policy accept;
    iifname "drawbridge0" ct direction original ct label set 100
  }

  chain output {
    type filter hook output priority -6; policy accept;
    ct direction original ct label set 100
  }
}`,
    );
  });
});
