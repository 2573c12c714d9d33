import assert from "node:assert/strict";
import { type CountedRule, type NftablesCounters, nftablesCounters } from "../../kernel/nftables/decode/counters.ts";
import { tableChanges } from "../../kernel/nftables/encode/change.ts";
import { keyText } from "../../kernel/nftables/encode/element.ts";
import type { Element, Table } from "../../kernel/nftables/model/object.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { concatenation, lookup } from "../../kernel/nftables/model/expression.ts";
import { counter, drop, equals, rule } from "../../kernel/nftables/model/statement.ts";
import { parseAddress } from "../../kernel/ip/address.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { suiteLab } from "../support/suite_lab.ts";

const SET = {
  name: "endpoints",
  key: ["ipv4_addr", "inet_service"],
  data: ["ipv4_addr", "inet_service"],
  hasCounters: true,
} as const;

const TABLE: Table = {
  family: "inet",
  name: "counted",
  sets: [SET, { name: "plain", key: ["ipv4_addr"] }],
  chains: [
    {
      name: "to",
      base: { type: "nat", hook: "output", priority: -100, policy: "accept" },
      rules: [
        rule({
          kind: "dnat",
          target: {
            lookup: lookup(concatenation("ip daddr", "udp dport"), SET.name),
            family: "ip",
            hasPort: true,
          },
        }),
      ],
    },
    {
      name: "drops",
      base: { type: "filter", hook: "output", priority: 0, policy: "accept" },
      rules: [
        { ...rule(equals("udp dport", 9), counter, drop), comment: "to the ninth" },
        rule(equals("udp dport", 10), counter, drop),
        { ...rule(equals("udp dport", 11), drop), comment: "not counted" },
      ],
    },
  ],
};

/** More elements than one datagram holds. */
const ELEMENTS = 2000;
const elements = Array.from({ length: ELEMENTS }, (_, i): Element => ({
  key: [parseAddress(`10.0.${i >> 8}.${i & 255}`), 80],
  data: [parseAddress("127.0.0.1"), 7],
}));

describe("kernel/nftables counters", () => {
  let lab: Lab;
  let node: LabNamespace;
  let nftables: NftablesSocket;
  let counters: NftablesCounters;

  before(function () {
    lab = suiteLab(this, "counters");
    node = lab.namespace("node");
    nftables = node.inside(() => new NftablesSocket(lab.calls));
    const real = nftablesCounters(lab.calls);
    // A list opens its socket with its first step.
    counters = {
      elements: (...args) => node.inside(() => [...real.elements(...args)]),
      rules: (...args) => node.inside(() => [...real.rules(...args)]),
    };
    node.exec("ip", ["route", "add", "local", "10.0.0.0/16", "dev", "lo"]);
    nftables.commit(
      tableChanges(
        TABLE,
        new Map([
          ["endpoints", elements],
          ["plain", [{ key: [parseAddress("10.0.0.1")] }]],
        ]),
      ),
    );
  });
  after(() => nftables?.close());

  /** Sends each datagram from a socket of its own, so that each is a new connection. */
  function send(address: string, port: number, count: number): void {
    const program = `
      const { createSocket } = require("node:dgram");
      for (let i = 0; i < ${count}; i++) {
        const socket = createSocket("udp4");
        socket.send("x", ${port}, ${JSON.stringify(address)}, () => socket.close());
      }`;
    node.exec(process.execPath, ["--eval", program]);
  }

  it("METRIC-01: all elements are listed in several pieces, each with the number of packets that matched it", () => {
    send("10.0.7.5", 80, 3);
    send("10.0.0.9", 80, 1);
    const pieces = [...counters.elements(TABLE, SET)];
    assert.ok(pieces.length > 3, `${pieces.length} pieces`);
    const reported = pieces.flat();
    assert.equal(new Set(reported.map(({ element }) => keyText(element.key))).size, ELEMENTS);
    const met = reported
      .filter(({ packets }) => packets > 0)
      .map(({ element: { key, data }, packets }) => [key, data, packets]);
    const data = [parseAddress("127.0.0.1"), 7];
    assert.deepEqual(
      met.sort(([, , a], [, , b]) => Number(a) - Number(b)),
      [
        [[parseAddress("10.0.0.9"), 80], data, 1],
        [[parseAddress("10.0.7.5"), 80], data, 3],
      ],
    );
  });

  it("METRIC-02 METRIC-06: rules with a counter and a comment are listed, of all chains or one, with number and verdict", () => {
    const list = (table: Table, chain?: string): readonly CountedRule[] => [...counters.rules(table, chain)].flat();
    assert.deepEqual(
      list(TABLE, "drops").map(({ comment, packets }) => [comment, packets]),
      [["to the ninth", 0]],
    );
    for (const port of [9, 10, 11]) {
      // The kernel reports its drop to the sender.
      try {
        send("127.0.0.1", port, 2);
      } catch (error) {
        assert.match(String(error), /EPERM/);
      }
    }
    const [reported, ...others] = list(TABLE);
    assert.ok(reported !== undefined && others.length === 0);
    assert.deepEqual([reported.chain, reported.comment, reported.verdict], ["drops", "to the ninth", { kind: "drop" }]);
    assert.ok(reported.handle > 0n && reported.packets > 0);
    assert.deepEqual(list(TABLE, "drops"), [reported]);
    for (const [table, chain] of [
      [TABLE, "to"],
      [TABLE, "absent"],
      [{ ...TABLE, name: "absent" }, undefined],
    ] as const) {
      assert.deepEqual(list(table, chain), []);
    }
  });

  it("a missing set is an error, and a set without counters gives none", () => {
    assert.throws(() => [...counters.elements(TABLE, { ...SET, name: "absent" })], { code: "ERR_NETLINK" });
    assert.deepEqual([...counters.elements(TABLE, { name: "plain", key: ["ipv4_addr"] })].flat(), []);
  });
});
