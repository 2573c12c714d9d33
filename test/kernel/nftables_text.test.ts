import { parseAddress } from "../../kernel/ip/address.ts";
import { tableChanges } from "../../kernel/nftables/encode/change.ts";
import { concatenation } from "../../kernel/nftables/model/expression.ts";
import type { Element, SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import {
  accept,
  counter,
  drop,
  equals,
  inSet,
  not,
  oneOf,
  rule,
  startsWith,
} from "../../kernel/nftables/model/statement.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { assertElements, assertSame } from "../support/nftables/comparison.ts";
import { everythingElements, everythingTable } from "../support/nftables/example.ts";
import { suiteLab } from "../support/suite_lab.ts";

const solicitations = ["nd-neighbor-solicit", "mld-listener-report", "mld2-listener-report"] as const;

/** A table of the addresses that may be sent from each port of a bridge. */
const bridgeTable: Table = {
  family: "bridge",
  name: "guard",
  sets: [
    { name: "p4", key: ["ifname", "ether_addr", "ipv4_addr"] },
    { name: "p6", key: ["ifname", "ether_addr", "ipv6_addr"] },
    { name: "mac", key: ["ifname", "ether_addr"] },
  ],
  chains: [
    {
      name: "pre",
      base: { type: "filter", hook: "prerouting", priority: -300, policy: "accept" },
      rules: [
        rule(not(startsWith("iifname", "dbv")), accept),
        rule(inSet(concatenation("iifname", "ether saddr", "ip saddr"), "p4"), accept),
        rule(inSet(concatenation("iifname", "ether saddr", "ip6 saddr"), "p6"), accept),
        rule(inSet(concatenation("iifname", "arp saddr ether", "arp saddr ip"), "p4"), accept),
        rule(
          inSet(concatenation("iifname", "ether saddr"), "mac"),
          equals("ip6 saddr", parseAddress("::")),
          oneOf("icmpv6 type", solicitations),
          accept,
        ),
        rule(counter, drop),
      ],
    },
  ],
};

const bridgeElements = new Map([
  ["p4", [{ key: ["dbv0", "0a:58:0a:f4:01:07", parseAddress("10.244.1.7")] }]],
  ["p6", [{ key: ["dbv0", "0a:58:0a:f4:01:07", parseAddress("fd00::7")] }]],
  ["mac", [{ key: ["dbv0", "0a:58:0a:f4:01:07"] }]],
]);

describe("kernel/nftables: our text and nft's listing", () => {
  let lab: Lab | undefined;
  let written: LabNamespace;
  let other: LabNamespace;
  let nft: NftablesSocket;

  before(function () {
    lab = suiteLab(this, "nftables-text");
    written = lab.namespace("written");
    other = lab.namespace("other");
    nft = written.inside(() => new NftablesSocket(written.calls));
  });

  after(() => nft?.close());

  it("a table with everything that we can express lists as our text, which loads again", () => {
    assertSame(nft, written, other, { table: everythingTable, elements: everythingElements });
    other.exec("nft", ["-c", "-f", "-"], "table inet everything\ndelete table inet everything");
  });

  it("a bridge table with names, Ethernet addresses, ARP and the unspecified address lists as our text", () => {
    assertSame(nft, written, other, { table: bridgeTable, elements: bridgeElements });
  });

  it("the catch-all of a set of ranges, which nft 1.0.6 cannot load, is read back, and deleted like other elements", () => {
    written.exec("nft", ["flush", "ruleset"]);
    const set: SetDefinition = { name: "ranges", key: ["ipv4_addr"], isInterval: true, data: "verdict" };
    const table: Table = { family: "inet", name: "t", sets: [set], chains: [] };
    const range = { first: parseAddress("0.0.0.0"), last: parseAddress("10.0.0.255") };
    const elements: readonly Element[] = [
      { key: [range], data: { kind: "accept" } },
      { key: [], data: { kind: "drop" } },
    ];
    nft.commit(tableChanges(table, new Map([["ranges", elements]])));
    assertElements(nft, table, new Map([["ranges", elements]]));
    nft.commit([{ kind: "delete elements", table, set, elements: [{ key: [] }] }]);
    assertElements(nft, table, new Map([["ranges", elements.slice(0, 1)]]));
  });

  it("names and marks in an anonymous set list unchanged", () => {
    const rules = [rule(oneOf("iifname", ["eth0", "cni0"]), accept), rule(oneOf("meta mark", [1, 0x4000]), drop)];
    const table: Table = { family: "inet", name: "t", sets: [], chains: [{ name: "c", rules }] };
    assertSame(nft, written, other, { table, elements: new Map() });
  });
});
