import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { tableChanges } from "../../kernel/nftables/encode/change.ts";
import type { Element, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { realClock } from "../../policyd/lib/clock.ts";
import type { DesiredElement } from "../../policyd/ruleset/desired/desired_element.ts";
import { withVersion } from "../../policyd/ruleset/schema.ts";
import { rulesetOver } from "../support/ruleset/bench.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { sampleAddress } from "../support/ruleset/sample.ts";
import { suiteLab } from "../support/suite_lab.ts";

/** The number of elements, which the kernel lists in several pieces. */
const MANY = 6000;
const PATIENCE_MILLISECONDS = 30_000;

const targets: SetDefinition = { name: "targets", key: ["ipv4_addr", "inet_service"], data: ["mark"] };
const other: SetDefinition = { name: "other", key: ["ipv4_addr"] };
const table: Table = withVersion({ family: "inet", name: "drawbridge", sets: [targets, other], chains: [] });

function element(number: number, mark = 1): Element {
  return { key: [sampleAddress(number), 80], data: [mark] };
}

function elements(from: number, to: number): readonly Element[] {
  return Array.from({ length: to - from }, (_, index) => element(from + index));
}

function claims(from: number, to: number): readonly DesiredElement[] {
  return elements(from, to).map((one) => ({ table, set: targets.name, element: one }));
}

describe("a large set that is read in pieces", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;
  let nft: NftablesSocket;
  let stranger: NftablesSocket;

  before(function () {
    lab = suiteLab(this, "pieces");
    node = lab.namespace("node");
    nft = node.inside(() => new NftablesSocket(node.calls));
    stranger = node.inside(() => new NftablesSocket(node.calls));
  });

  beforeEach(() => {
    node.exec("nft", ["flush", "ruleset"]);
  });

  after(() => {
    nft?.close();
    stranger?.close();
  });

  it("DP-08: the kernel lists all elements whatever is committed to other sets meanwhile", async () => {
    nft.commit(tableChanges(table, new Map([[targets.name, elements(0, MANY)]])));
    const reported = (): number => {
      const found = new Set<unknown>();
      let pieces = 0;
      for (const piece of nft.elementsInPieces(table, targets)) {
        for (const { key } of piece) found.add(key[0]);
        nft.commit([{ kind: "add elements", table, set: other, elements: [{ key: [sampleAddress(pieces++)] }] }]);
      }
      assert.ok(pieces > 5, `${pieces} pieces`);
      return found.size;
    };
    // The kernel may still be enlarging its table after so large a batch.
    const deadline = Date.now() + PATIENCE_MILLISECONDS;
    while (reported() !== MANY) {
      assert.ok(Date.now() < deadline);
      await sleep(50);
    }
    assert.equal(reported(), MANY);
  });

  it("DP-08: the next list works after one that was abandoned, or whose set was deleted", () => {
    nft.commit(tableChanges(table, new Map([[targets.name, elements(0, MANY)]])));
    const list = nft.elementsInPieces(table, targets);
    assert.ok((list.next().value?.length ?? 0) > 0);
    list.return();
    assert.ok(
      (nft.elementsInPieces(table, targets).next().value?.length ?? 0) > 0,
      "the next list works while the previous one is still open",
    );
    const next = nft.elementsInPieces(table, targets);
    assert.ok((next.next().value?.length ?? 0) > 0);
    nft.commit([{ kind: "delete set", table, set: targets }]);
    assert.throws(
      () => [...next],
      (error) => error instanceof NetlinkError && error.errnoName === "ENOENT",
    );
    nft.commit([{ kind: "add elements", table, set: other, elements: [{ key: [sampleAddress(1)] }] }]);
    assert.deepEqual([...nft.elementsInPieces(table, other)].flat(), [{ key: [sampleAddress(1)] }]);
  });

  it("POD-20: elements are looked up by their keys, and a key that the set does not have is left out", () => {
    const keys = [3, MANY, 5, MANY + 1].map((number) => element(number).key);
    assert.deepEqual(nft.elements(table, targets, keys), [], "no such set");
    nft.commit(tableChanges(table, new Map([[targets.name, elements(0, MANY)]])));
    assert.deepEqual(nft.elements(table, targets, keys), [element(3), element(5)]);
    const all = elements(0, 100);
    assert.deepEqual(
      nft.elements(
        table,
        targets,
        all.map(({ key }) => key),
      ),
      all,
    );
    assert.deepEqual(nft.elements(table, targets, []), []);
  });

  it("DP-08 DP-09: changes by strangers are repaired while ours go on, and ours do not count as theirs", async function () {
    this.timeout(2 * PATIENCE_MILLISECONDS);
    const ruleset = rulesetOver(nft, [table], { clock: realClock });
    ruleset.claim("base", claims(0, MANY));
    ruleset.start();
    assert.equal(ruleset.flush(), true);
    stranger.commit([
      { kind: "delete elements", table, set: targets, elements: [element(10), element(MANY - 10), element(50)] },
      { kind: "add elements", table, set: targets, elements: [element(50, 2), element(MANY + 1000)] },
    ]);
    ruleset.verify();
    const deadline = Date.now() + PATIENCE_MILLISECONDS;
    let turn = 0;
    while (ruleset.status().repairs === 0) {
      turn++;
      ruleset.claim("going", claims(MANY + (turn % 100), MANY + 100));
      assert.ok(Date.now() < deadline, ruleset.status().lastError);
      await sleep(turn % 2);
    }
    ruleset.claim("going", []);
    assert.equal(ruleset.flush(), true);
    assert.deepEqual([ruleset.status().repairs, ruleset.status().failures], [4, 0], ruleset.status().lastError);
    const found = nft.elements(table, targets);
    assert.equal(found.length, MANY);
    assert.ok(found.every(({ data }) => Array.isArray(data) && data[0] === 1));
    ruleset.stop();
  });
});
