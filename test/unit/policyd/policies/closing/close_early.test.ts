import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { tableChanges } from "../../../../../kernel/nftables/encode/change.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { Table } from "../../../../../kernel/nftables/model/object.ts";
import { formatTable } from "../../../../../kernel/nftables/text/text.ts";
import { withVersion } from "../../../../../policyd/ruleset/schema.ts";
import { nodeTables } from "../../../../../policyd/node/tables/tables.ts";
import { recordingLogger } from "../../../../../policyd/log/recording_logger.ts";
import { closeEarly, type ClosingParts } from "../../../../../policyd/policies/closing/close_early.ts";
import {
  CLOSING_BRIDGE_TABLE,
  CLOSING_TABLE,
  closingBridgeTable,
  closingTable,
} from "../../../../../policyd/policies/closing/closing_tables.ts";
import { EnforcedMark, type MarkPlace } from "../../../../../policyd/policies/closing/enforced_mark.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { kernelOpening } from "../../../../../policyd/policies/cuts/startup_rules.ts";
import { policiesOff } from "../../../../../policyd/policies/policies_off.ts";

const STATE = "/run/drawbridge";
const BOOT = "b007";
const NODE = { bridge: "cni0", markBits: { masquerade: 1, bridged: 2 }, tableOwner: false };
const TABLES = nodeTables({ ...NODE, policyOptions: DEFAULT_POLICY_OPTIONS }).map(withVersion);
const NOTHING = { missing: [], isLost: false };
const BOTH = ["inet drawbridge-policy", "bridge drawbridge"];

function filesInMemory(): MarkPlace["files"] {
  const texts = new Map<string, string>();
  return {
    makeDirectory: () => {},
    createFile: (path, content) => !texts.has(path) && texts.set(path, content).has(path),
    unlink: (path) => texts.delete(path),
    readSmallFile: (path) => {
      const text = texts.get(path);
      return text === undefined ? { kind: "missing" } : { kind: "text", text };
    },
  };
}

/** A node with some of its tables, and a mark of a boot. */
function setUp({ tables = [] as readonly Table[], marked = BOOT } = {}) {
  const kernel = new FakeNftables();
  for (const table of tables) kernel.commit(tableChanges(table, new Map()));
  const files = filesInMemory();
  if (marked !== "") new EnforcedMark({ stateDirectory: STATE, files, bootId: () => marked }).set();
  const mark = new EnforcedMark({ stateDirectory: STATE, files, bootId: () => BOOT });
  const close = (changes: Partial<ClosingParts> = {}) =>
    closeEarly({
      kernel,
      bridge: "cni0",
      isEnforcing: true,
      mark,
      hasPods: () => true,
      isOtherRunning: () => false,
      ...changes,
    });
  const closed = (): readonly boolean[] =>
    [CLOSING_TABLE, CLOSING_BRIDGE_TABLE].map((table) => kernel.head(table) !== undefined);
  return { kernel, mark, close, closed };
}

describe("policyd/policies/closing", () => {
  it("SVC-26 DP-20: on a node that has lost its tables, each starting daemon closes the bridge in one batch", () => {
    for (const [tables, lost, closed] of [
      [[], BOTH, [true, true]],
      [TABLES.filter(({ family }) => family === "bridge"), BOTH.slice(0, 1), [true, false]],
      [TABLES.filter(({ name }) => name === "drawbridge-policy"), BOTH.slice(1), [false, true]],
      [TABLES.map((table) => ({ ...table, chains: [] })), BOTH, [true, true]],
      [TABLES.map(({ comment: _ours, ...table }) => table), BOTH, [true, true]],
    ] as const) {
      const node = setUp({ tables });
      const before = node.kernel.generation();
      assert.deepEqual(node.close(), { missing: lost, isLost: true });
      assert.deepEqual([node.closed(), node.kernel.generation() - before], [closed, 1]);
      assert.deepEqual(
        [node.close(), node.closed()],
        [{ missing: lost, isLost: true }, closed],
        "closed again over the existing tables",
      );
    }
  });

  it("DP-20 POL-09: a node without pods is closed while its first daemon starts, and one whose tables are in force is not", () => {
    for (const marked of ["", "an earlier boot"]) {
      const fresh = setUp({ marked });
      assert.deepEqual(fresh.close({ hasPods: () => false }), { missing: BOTH, isLost: false });
      assert.deepEqual(fresh.closed(), [true, true]);
    }
    const whole = setUp({ tables: TABLES, marked: "" });
    assert.deepEqual([whole.close({ hasPods: () => false }), whole.closed()], [NOTHING, [false, false]]);
  });

  it("SVC-26 DP-20: nothing is closed where tables are in force, or where pods had no policies since this boot", () => {
    for (const node of [setUp({ tables: TABLES }), setUp({ marked: "" }), setUp({ marked: "an earlier boot" })]) {
      const before = node.kernel.generation();
      assert.deepEqual([node.close(), node.closed()], [NOTHING, [false, false]]);
      assert.equal(node.kernel.generation(), before);
    }
    const other = setUp();
    assert.deepEqual([other.close({ isOtherRunning: () => true }), other.closed()], [NOTHING, [false, false]]);
  });

  it("DP-20: a daemon without policies closes nothing, and removes the mark and an earlier daemon's closing", async () => {
    const node = setUp();
    node.close();
    assert.deepEqual(node.close({ isEnforcing: false }), NOTHING);
    assert.equal(node.mark.isSet(), false);
    await policiesOff(node.kernel, recordingLogger()).prepared();
    assert.deepEqual(node.closed(), [false, false]);
  });

  it("DP-20: a kernel or file that refuses the early closing does not stop the daemon, and is reported", () => {
    const refuse = (): never => {
      throw new DrawbridgeError("ERR_STORE", "no room");
    };
    const node = setUp();
    assert.deepEqual(node.close({ mark: { isSet: refuse, clear: refuse } }), { ...NOTHING, failure: "no room" });
    const { kernel } = node;
    const refusing = { head: kernel.head.bind(kernel), chains: kernel.chains.bind(kernel), commit: refuse };
    assert.deepEqual(node.close({ kernel: refusing }), { ...NOTHING, failure: "no room" });
  });

  it("DP-20 POL-82: the early closing ends when policies are in force, and connections are not labelled before that", () => {
    const policyTable = TABLES.find(({ name }) => name === "drawbridge-policy");
    assert.ok(policyTable !== undefined);
    const { kernel, close, closed } = setUp();
    const opening = kernelOpening({ kernel, commit: (changes) => kernel.commit(changes), bridge: "cni0", policyTable });
    assert.equal(opening.read().isInForce, false);
    close();
    assert.equal(opening.read().isInForce, true);
    opening.close();
    assert.deepEqual(closed(), [false, false]);
  });

  it("DP-20: the early closing passes only allowed connections and those of the node to its pods", () => {
    const text = [closingTable("cni0"), closingBridgeTable()].map((table) => formatTable(table, new Map())).join("");
    assert.equal(text.replaceAll("\t", "  "), TEXT);
  });
});

const TEXT = `table inet drawbridge-closing {
  comment "drawbridge schema of no version"
  chain forward {
    type filter hook forward priority -7; policy accept;
    ct label 100 accept
    iifname "cni0" counter drop comment "policies not read yet"
    oifname "cni0" counter drop comment "policies not read yet"
  }

  chain input {
    type filter hook input priority -7; policy accept;
    iifname != "cni0" accept
    ct label 100 accept
    ct direction reply accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    counter drop comment "policies not read yet"
  }
}
table bridge drawbridge-closing {
  comment "drawbridge schema of no version"
  chain forward {
    type filter hook forward priority -200; policy accept;
    iifname "dbv*" counter drop comment "policies not read yet"
  }
}
`;
