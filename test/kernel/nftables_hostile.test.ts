import assert from "node:assert/strict";
import { DrawbridgeError } from "../../kernel/error.ts";
import { addressFromValue } from "../../kernel/ip/address.ts";
import { type Change, requestsOf, tableChanges } from "../../kernel/nftables/encode/change.ts";
import type { Element, Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { accept, equals, inSet, jumpTo, rule, startsWith } from "../../kernel/nftables/model/statement.ts";
import { formatTable } from "../../kernel/nftables/text/text.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { mulberry32 } from "../bench/statistics.ts";
import { listing, loaded } from "../support/nftables/comparison.ts";
import { normalListing } from "../support/nftables/listing.ts";
import { requireKernel } from "../support/privilege.ts";

const COUNT = 2000;
const PER_TABLE = 1000;

/** Returns texts that are meaningful to nft, a shell, C or Unicode, and mixtures of them; the same in each run. */
function hostileTexts(count: number): readonly string[] {
  const random = mulberry32(0x5eed);
  const pieces =
    `" ' \\ ; { } # $ @ * ! \n \r \t \0 , . .. / - _ : = | & ( ) [ ] < > \` ~ é ‮ 😀 \ufeff include "/etc/passwd" drop accept comment elements = table inet x add rule flush ruleset %s %n a Z 9 web-1 pod_7 dbv0 eth0.5 x*`.split(
      / /,
    );
  return Array.from({ length: count }, (_, index) => {
    const length = 1 + Math.floor(random() * (index % 7 === 0 ? 40 : 4));
    return Array.from({ length }, () => pieces[Math.floor(random() * pieces.length)] ?? "").join(index % 3 ? "" : " ");
  });
}

function isTaken(changes: readonly Change[]): boolean {
  try {
    requestsOf(changes);
    return true;
  } catch (error) {
    assert.ok(error instanceof DrawbridgeError && error.code === "ERR_NFTABLES_VALUE", String(error));
    return false;
  }
}

describe("kernel/nftables: hostile texts", () => {
  let lab: Lab | undefined;
  let written: LabNamespace;
  let other: LabNamespace;
  let nft: NftablesSocket;
  const texts = hostileTexts(COUNT);
  const scratch: Table = { family: "inet", name: "scratch", sets: [], chains: [] };

  before(function () {
    requireKernel(this);
    lab = createLab("nftables-hostile");
    written = lab.namespace("written");
    other = lab.namespace("other");
    nft = written.inside(() => new NftablesSocket(written.calls));
  });

  after(() => {
    nft?.close();
    lab?.destroy();
  });

  /** Writes a table, and compares its listing, and the table that loads from the listing, with our text. */
  function assertLists(table: Table, elements: ReadonlyMap<string, readonly Element[]> = new Map()): void {
    written.exec("nft", ["flush", "ruleset"]);
    nft.commit(tableChanges(table, elements));
    const listed = listing(written);
    assert.equal(listed, normalListing(formatTable(table, elements)));
    assert.equal(loaded(other, written.ruleset("-y")), listed);
  }

  function taken(changesOf: (text: string) => readonly Change[]): readonly string[] {
    const found = [...new Set(texts.filter((text) => isTaken(changesOf(text))))];
    assert.ok(found.length > 5 && found.length < texts.length, `${found.length} of ${texts.length} are accepted`);
    return found;
  }

  it("as names are refused, or name one object that lists and loads", function () {
    this.timeout(120_000);
    const names = taken((name) => tableChanges({ ...scratch, name }, new Map()));
    assert.deepEqual(
      taken((name) => [{ kind: "add chain", table: scratch, chain: { name } }]),
      names,
    );
    assert.deepEqual(
      taken((name) => [{ kind: "add set", table: scratch, set: { name, key: ["mark"] } }]),
      names,
    );
    assert.deepEqual(
      taken((chain) => [{ kind: "add rule", table: scratch, chain: "c", rule: rule(jumpTo(chain)) }]),
      names,
    );
    assert.deepEqual(
      taken((set) => [{ kind: "add rule", table: scratch, chain: "c", rule: rule(inSet("meta mark", set)) }]),
      names,
    );
    // nft's own words are not names for it. Our tables have none of them.
    const listed = names.filter((name) => !/^[a-z]+$/.test(name));
    for (const [index, name] of listed.slice(0, 20).entries()) {
      assertLists({
        family: "inet",
        name,
        sets: listed.map((set) => ({ name: set, key: ["mark"] })),
        chains: [
          ...listed.map((chain) => ({ name: chain, rules: [rule(inSet("meta mark", chain), accept)] })),
          { name: `caller${index}`, rules: listed.map((chain) => rule(jumpTo(chain))) },
        ],
      });
    }
  });

  it("as names of deleted objects are sent unchanged, since objects of others may have them", () => {
    nft.commit(tableChanges(scratch, new Map()));
    for (const kind of ["delete chain", "flush chain"] as const) {
      const names = taken((chain) => [{ kind, table: scratch, chain }]);
      assert.ok(names.includes("*") && names.includes(";") && names.every((name) => !name.includes("\0")));
      for (const chain of names.slice(0, 20)) {
        assert.throws(() => nft.commit([{ kind, table: scratch, chain }]), /ENOENT/, chain);
      }
    }
    for (const kind of ["delete set", "flush set"] as const) {
      const names = taken((name) => [{ kind, table: scratch, set: { name } }]);
      for (const name of names.slice(0, 20)) {
        assert.throws(() => nft.commit([{ kind, table: scratch, set: { name } }]), /ENOENT/, name);
      }
    }
  });

  it("as comments are refused, or list and load", function () {
    this.timeout(120_000);
    const comments = taken((comment) => [{ kind: "add table", table: { ...scratch, comment } }]);
    const set = { name: "s", key: ["ipv4_addr"] } as const;
    assert.deepEqual(
      taken((comment) => [{ kind: "add elements", table: scratch, set, elements: [{ key: [1], comment }] }]),
      comments,
    );
    for (let start = 0; start < comments.length; start += PER_TABLE) {
      const part = comments.slice(start, start + PER_TABLE);
      assertLists(
        {
          ...scratch,
          comment: part[0] ?? "none",
          sets: [set, ...part.map((comment, index) => ({ ...set, name: `s${index}`, comment }))],
          chains: [
            { name: "c", comment: part[0] ?? "none", rules: part.map((comment) => ({ ...rule(accept), comment })) },
          ],
        },
        new Map([["s", part.map((comment, index) => ({ key: [addressFromValue(4, BigInt(index)) ?? 0], comment }))]]),
      );
    }
  });

  it("as log prefixes and interface names are refused, or list and load", function () {
    this.timeout(120_000);
    const logOf = (prefix: string): Table["chains"][number]["rules"][number] =>
      rule({ kind: "log", prefix, group: 1, snapLength: 64 });
    const rulesOf = {
      prefix: logOf,
      name: (name: string) => rule(equals("iifname", name)),
      wildcard: (name: string) => rule(startsWith("oifname", name), accept),
    };
    for (const ruleOf of Object.values(rulesOf)) {
      const found = taken((text) => [{ kind: "add rule", table: scratch, chain: "c", rule: ruleOf(text) }]);
      assertLists({
        ...scratch,
        chains: [{ name: "c", rules: found.slice(0, PER_TABLE).map((text) => ruleOf(text)) }],
      });
    }
  });
});
