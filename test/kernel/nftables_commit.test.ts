import assert from "node:assert/strict";
import os from "node:os";
import { DrawbridgeError } from "../../kernel/error.ts";
import { addressFromValue, parseAddress } from "../../kernel/ip/address.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { NETLINK_NETFILTER } from "../../kernel/netlink/netfilter_message.ts";
import { type Change, requestsOf, tableChanges } from "../../kernel/nftables/encode/change.ts";
import { keyText } from "../../kernel/nftables/encode/element.ts";
import { batchBegin, batchEnd } from "../../kernel/nftables/encode/message.ts";
import type { Element, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { jumpTo, rule } from "../../kernel/nftables/model/statement.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { skip } from "../support/privilege.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { tableState } from "../support/nftables/table_state.ts";

const frontends: SetDefinition = { name: "frontends", key: ["ipv4_addr", "inet_proto", "inet_service"] };
const endpoints: SetDefinition = { name: "endpoints", key: ["ipv4_addr"], data: ["inet_service"] };
const ranges: SetDefinition = { name: "ranges", key: ["ipv4_addr"], isInterval: true };
const table: Table = {
  family: "inet",
  name: "t",
  sets: [frontends, endpoints, ranges],
  chains: [
    { name: "a", rules: [] },
    { name: "b", rules: [] },
  ],
};

/** NFT_TABLE_F_PERSIST */
const PERSIST = 4;

/** Returns one element for each of the first addresses of 10.0.0.0/8. */
function manyElements(count: number): readonly Element[] {
  return Array.from({ length: count }, (_, index) => ({
    key: [addressFromValue(4, BigInt(0x0a000000 + index)) ?? 0, "tcp", 80],
  }));
}

describe("kernel/nftables/socket: a batch", () => {
  let lab: Lab | undefined;
  let namespace: LabNamespace;
  let nft: NftablesSocket;

  before(function () {
    lab = suiteLab(this, "nftables-commit");
    namespace = lab.namespace("a");
    nft = namespace.inside(() => new NftablesSocket(namespace.calls));
  });

  beforeEach(() => {
    namespace.exec("nft", ["flush", "ruleset"]);
    nft.commit(tableChanges(table, new Map([["endpoints", [{ key: [parseAddress("10.0.0.1")], data: [80] }]]])));
  });

  after(() => nft?.close());

  function assertRefused(changes: readonly Change[], message: string): void {
    const before = { listing: namespace.ruleset("-y"), generation: nft.generation() };
    assert.throws(
      () => nft.commit(changes),
      (error) => {
        assert.ok(error instanceof DrawbridgeError);
        assert.equal(error.message, message);
        return true;
      },
    );
    const after = { listing: namespace.ruleset("-y"), generation: nft.generation() };
    assert.deepEqual(after, before, "nothing has changed");
  }

  it("that fails in the middle changes nothing, and the error names the element", () => {
    assertRefused(
      [
        { kind: "add elements", table, set: frontends, elements: manyElements(3) },
        {
          kind: "add elements",
          table,
          set: endpoints,
          elements: [
            { key: [parseAddress("10.0.0.7")], data: [80] },
            { key: [parseAddress("10.0.0.1")], data: [81] },
          ],
        },
        { kind: "add chain", table, chain: { name: "c" } },
      ],
      "add element inet t endpoints: already exists (EEXIST, attribute 10.0.0.1 : 81)",
    );
  });

  it("whose deletion of a missing element, or addition of overlapping ranges, is refused names the element", () => {
    nft.commit([{ kind: "add elements", table, set: frontends, elements: manyElements(2000) }]);
    assertRefused(
      [
        {
          kind: "delete elements",
          table,
          set: frontends,
          elements: [...manyElements(1999), { key: [parseAddress("10.9.9.9"), "udp", 53] }],
        },
      ],
      "delete element inet t frontends: no such file or directory (ENOENT, attribute 10.9.9.9 . udp . 53)",
    );
    const [first, last] = [parseAddress("10.0.0.0"), parseAddress("10.0.0.9")];
    nft.commit([{ kind: "add elements", table, set: ranges, elements: [{ key: [{ first, last }] }] }]);
    assertRefused(
      [
        {
          kind: "add elements",
          table,
          set: ranges,
          elements: [
            { key: [parseAddress("10.1.0.0")] },
            { key: [{ first: parseAddress("10.0.0.5"), last: parseAddress("10.0.0.20") }] },
          ],
        },
      ],
      "add element inet t ranges: already exists (EEXIST, attribute 10.0.0.5-10.0.0.20)",
    );
  });

  it("that needs a missing object is refused with its name", () => {
    assertRefused(
      [{ kind: "delete chain", table, chain: "none" }],
      "delete chain inet t none: no such file or directory (ENOENT, attribute name)",
    );
    assertRefused(
      [{ kind: "add rule", table, chain: "none", rule: rule(jumpTo("a")) }],
      "add rule inet t none: no such file or directory (ENOENT, attribute chain)",
    );
    assertRefused(
      [{ kind: "add chain", table: { family: "inet", name: "other" }, chain: { name: "c" } }],
      "add chain inet other c: no such file or directory (ENOENT, attribute table)",
    );
  });

  it("with several errors reports each at its own request, and throws the first", () => {
    const socket = namespace.inside(() => new NetlinkSocket(namespace.calls, NETLINK_NETFILTER));
    const requests = requestsOf([
      { kind: "delete chain", table, chain: "none" },
      { kind: "add chain", table, chain: { name: "c" } },
      { kind: "delete set", table, set: { ...frontends, name: "nothing" } },
      { kind: "flush chain", table, chain: "a" },
    ]);
    const replies = socket.transaction([batchBegin(), ...requests, batchEnd()]);
    socket.close();
    assert.deepEqual(
      replies.map(({ error }) => error?.errnoName),
      [undefined, "ENOENT", undefined, "ENOENT", undefined, undefined],
    );
    assert.equal(tableState(nft, table)?.chains.has("c"), false);
  });

  it("that the kernel refuses at the commit has an error for the whole batch", () => {
    // Each rule is valid by itself; only all of them together make a loop.
    const input = { type: "filter", hook: "input", priority: 0, policy: "accept" } as const;
    const changes: readonly Change[] = [
      { kind: "add chain", table, chain: { name: "base", base: input } },
      { kind: "add rule", table, chain: "a", rule: rule(jumpTo("b")) },
      { kind: "add rule", table, chain: "b", rule: rule(jumpTo("a")) },
      { kind: "add rule", table, chain: "base", rule: rule(jumpTo("a")) },
    ];
    assert.throws(
      () => nft.commit(changes),
      (error) => error instanceof NetlinkError && error.errno !== 0,
    );
    assert.deepEqual(tableState(nft, table)?.chains.get("a")?.rules, []);
  });

  it("that changes a table of another socket, or would own an existing table, is refused with the way out", function () {
    const [major = 0, minor = 0] = os.release().split(".").map(Number);
    if (major < 6 || (major === 6 && minor < 9))
      skip(this, "this kernel is older than 6.9: owned tables do not persist");
    const owned = { family: "inet", name: "owned", isOwned: true } as const;
    const [owner, stranger] = namespace.inside(() => [
      new NftablesSocket(namespace.calls),
      new NftablesSocket(namespace.calls),
    ]);
    owner.commit([{ kind: "add table", table: owned }]);
    for (const change of [
      { kind: "add table", table: owned },
      { kind: "add chain", table: owned, chain: { name: "c" } },
    ] as const) {
      assert.throws(() => stranger.commit([change]), {
        errnoName: "EPERM",
        message: /^add (table inet owned|chain inet owned c): another process owns the table: stop it/,
      });
    }
    owner.close();
    assert.deepEqual([tableState(stranger, owned)?.flags, tableState(stranger, owned)?.owner], [PERSIST, undefined]);
    stranger.close();
    assert.throws(() => nft.commit([{ kind: "add table", table: { ...table, isOwned: true } }]), {
      errnoName: "EOPNOTSUPP",
      message: /without an owner.*delete it \(nft delete table inet t\), or do not ask for ownership/,
    });
  });

  it("of nothing, or of no elements, is not sent", () => {
    const generation = nft.generation();
    nft.commit([]);
    nft.commit([{ kind: "add elements", table, set: frontends, elements: [] }]);
    assert.equal(nft.generation(), generation);
  });

  it("of 100,000 elements takes effect as one", function () {
    this.timeout(120_000);
    const elements = manyElements(100_000);
    const generation = nft.generation();
    nft.commit([{ kind: "add elements", table, set: frontends, elements }]);
    assert.equal(nft.generation(), generation + 1);
    const found = new Set(nft.elements(table, frontends).map(({ key }) => keyText(key)));
    assert.equal(found.size, elements.length);
    assert.ok(elements.every(({ key }) => found.has(keyText(key))));
    nft.commit([{ kind: "delete elements", table, set: frontends, elements: elements.slice(1) }]);
    assert.deepEqual(nft.elements(table, frontends), elements.slice(0, 1));
  });

  it("whose refusals overrun the receive buffer has failed, and the socket can be used further", () => {
    const small = namespace.inside(
      () => new NetlinkSocket(namespace.calls, NETLINK_NETFILTER, { bufferBytes: 512 * 1024 }),
    );
    const wrong = requestsOf(
      manyElements(3000).map((element): Change => ({
        kind: "delete elements",
        table,
        set: frontends,
        elements: [element],
      })),
    );
    const replies = small.transaction([batchBegin(), ...wrong, batchEnd()]);
    const reported = replies.filter(({ error }) => error !== undefined).length;
    assert.ok(reported > 0 && reported < wrong.length, `${reported} of ${wrong.length} refusals came through`);
    const right = requestsOf([{ kind: "add elements", table, set: frontends, elements: manyElements(1) }]);
    const answered = small.transaction([batchBegin(), ...right, batchEnd()]);
    small.close();
    assert.deepEqual(
      answered.map(({ error }) => error),
      [undefined, undefined, undefined],
    );
    assert.deepEqual(nft.elements(table, frontends), manyElements(1));
  });
});
