import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { type Change, requestsOf } from "../../../kernel/nftables/encode/change.ts";
import { setLayout } from "../../../kernel/nftables/encode/message.ts";
import { decodeBody } from "../../../kernel/netlink/message.ts";
import { formatNftDuration } from "../../../kernel/nftables/text/element_text.ts";
import { concatenation, randomNumber } from "../../../kernel/nftables/model/expression.ts";
import type { SetDefinition, TableFamily } from "../../../kernel/nftables/model/object.ts";
import {
  accept,
  anyFlag,
  equals,
  hasBits,
  inSet,
  not,
  oneOf,
  rule,
  setMarkBit,
  startsWith,
  type Match,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import { formatChanges, formatTable } from "../../../kernel/nftables/text/text.ts";

const table = { family: "inet", name: "t" } as const;
const address = parseAddress("10.0.0.1");

function assertRefused(action: () => unknown, message: RegExp): void {
  assert.throws(
    action,
    (error) => error instanceof DrawbridgeError && error.code === "ERR_NFTABLES_VALUE" && message.test(error.message),
  );
}

describe("kernel/nftables: rules as instructions", () => {
  const port = { kind: "redirect", port: 80 } as const;
  const wide = concatenation("iifname", "oifname", "iifname", "oifname", "iifname");
  const refusals: readonly (readonly [string, TableFamily, readonly Statement[], RegExp])[] = [
    [
      "fields of two protocols",
      "inet",
      [equals("ip saddr", address), equals("ip6 saddr", 1n)],
      /"ip6 saddr" after .* ip;/,
    ],
    ["fields of two transports", "inet", [equals("tcp dport", 1), equals("udp dport", 1)], /"udp dport" after .* tcp;/],
    ["a field of another family", "ip", [equals("ip6 saddr", 1n)], /"ip6 saddr" after .* ip;/],
    ["a link's field outside a bridge", "inet", [equals("ether type", "ip")], /family inet/],
    ["ARP outside a bridge", "inet", [equals("arp operation", 1)], /arp operation/],
    ["a port without a protocol", "inet", [port], /redirect: a port in a rule without a transport protocol/],
    [
      "a reply's family that is not the rule's",
      "inet",
      [equals("ip saddr", address), { kind: "dnat", target: { kind: "address", address: parseAddress("::1") } }],
      /dnat/,
    ],
    [
      "a reply's family that the rule tests against",
      "inet",
      [equals("meta nfproto", "ipv6"), { kind: "snat", target: { kind: "address", address } }],
      /"snat" after .* a test for ip6;/,
    ],
    [
      "a reply's family that the rule's test of the protocol excludes",
      "inet",
      [equals("meta protocol", "ip"), { kind: "snat", target: { kind: "address", address: parseAddress("::1") } }],
      /"snat" after .* a test for ip;/,
    ],
    ["a key too long", "inet", [inSet(wide, "s")], /80 bytes; expected at most 64/],
    [
      "a reversed range",
      "inet",
      [{ kind: "match", left: "tcp dport", isNegated: false, right: { kind: "range", first: 9, last: 8 } }],
      /smaller end first/,
    ],
    [
      "a range in the host's byte order",
      "inet",
      [{ kind: "match", left: "meta mark", isNegated: false, right: { kind: "range", first: 1, last: 2 } }],
      /network byte order/,
    ],
    ["a set of nothing", "inet", [oneOf("tcp dport", [])], /set of no elements/],
    ["a port beyond 65535", "inet", [equals("tcp dport", 65_536)], /65536/],
    ["an unknown flag", "inet", [anyFlag("ct state", "fresh")], /"fresh"/],
    ["flags of what has none", "inet", [anyFlag("meta l4proto", "tcp")], /inet_proto/],
    ["an asterisk after a text that is not a name", "inet", [startsWith("iifname", "a b")], /"a b"/],
    [
      "a value that nft would load as another comparison",
      "ip",
      [not(equals("th sport", 1)), not(equals("th dport", 2))],
      /"th sport" beside "th dport", one with "!="/,
    ],
    ["a modulus of 0", "inet", [equals({ kind: "numgen", modulus: 0 }, 0)], /modulus: 0/],
    ["a number the modulus never gives", "inet", [equals({ kind: "numgen", modulus: 2 }, 2)], /numgen value: 2/],
    ["a rate of 0", "inet", [{ kind: "limit", rate: 0, unit: "second", burst: 1, isOver: false }], /limit rate: 0/],
    ["a log group beyond 65535", "inet", [{ kind: "log", prefix: "x", group: 65_536, snapLength: 1 }], /log group/],
    [
      "a chain's name that ends the statement",
      "inet",
      [{ kind: "verdict", verdict: { kind: "jump", chain: "a; flush ruleset" } }],
      /is not a valid name/,
    ],
    ["a mark's change of no bits", "inet", [setMarkBit(0)], /mark: "or" with 0/],
    ["a test of no bits of a mark", "inet", [hasBits("meta mark", 0, 0)], /the value 0 under the mask 0/],
    ["a test of the family in a table of one family", "ip6", [equals("meta nfproto", "ipv6")], /the family ip6/],
  ];
  for (const [what, family, statements, message] of refusals) {
    it(`refuses ${what}, in a batch and in a text`, () => {
      const changes: readonly Change[] = [
        { kind: "add rule", table: { family, name: "t" }, chain: "c", rule: rule(...statements) },
      ];
      assertRefused(() => requestsOf(changes), message);
      assertRefused(() => formatChanges(changes), message);
    });
  }
});

describe("kernel/nftables: sets and elements", () => {
  const plain: SetDefinition = { name: "s", key: ["ipv4_addr"] };
  const range = { first: address, last: parseAddress("10.0.0.9") };

  it("ranges outside of interval sets, reversed ones, and ranges of types without byte order are refused", () => {
    const add =
      (set: SetDefinition, key: Parameters<typeof equals>[1] | typeof range): (() => unknown) =>
      () =>
        requestsOf([{ kind: "add elements", table, set, elements: [{ key: [key] }] }]);
    const interval = { ...plain, isInterval: true };
    assertRefused(add(plain, range), /a range; expected one in an interval set only/);
    assertRefused(add(interval, { first: range.last, last: range.first }), /smaller end first/);
    assertRefused(add({ ...interval, key: ["mark"] }, 1), /intervals with mark/);
    const two: SetDefinition = { name: "s", key: ["ipv4_addr", "inet_service"], isInterval: true };
    const elements = [{ key: [range, { first: 90, last: 80 }] }];
    assertRefused(() => requestsOf([{ kind: "add elements", table, set: two, elements }]), /from 90 to 80/);
  });

  it("a rule's own set has room for both ends of each range, which older kernels count, and for one of each value", () => {
    const sizeOf = (
      elements: Extract<Match["right"], { readonly kind: "anonymous" }>["elements"],
    ): number | undefined => {
      const match = {
        kind: "match",
        left: "th dport",
        isNegated: false,
        right: { kind: "anonymous", elements },
      } as const;
      const requests = requestsOf([{ kind: "add rule", table, chain: "c", rule: rule(match, accept) }]);
      const set = requests.find(({ operation }) => operation.startsWith("add a set"));
      return set && decodeBody(setLayout, set.body).attributes.description?.size;
    };
    assert.equal(sizeOf([[{ first: 1, last: 2 }], [{ first: 5, last: 9 }], [80]]), 6);
    assert.equal(sizeOf([[1], [2], [80]]), 3);
  });

  it("set definitions that the kernel or nft cannot take are refused", () => {
    const define =
      (set: Partial<SetDefinition>): (() => unknown) =>
      () =>
        requestsOf([{ kind: "add set", table, set: { ...plain, ...set } }]);
    assertRefused(define({ key: [] }), /0 fields; expected 1 to 5/);
    assertRefused(define({ key: Array.from({ length: 6 }, () => "mark" as const) }), /6 fields/);
    assertRefused(define({ key: Array.from({ length: 5 }, () => "ipv6_addr" as const) }), /80 bytes/);
    assertRefused(define({ key: ["ether_addr", randomNumber(2)] }), /ether_addr beside a number/);
    assertRefused(
      define({ key: ["ipv4_addr", randomNumber(2)], data: "verdict" }),
      /generated number as key of verdicts/,
    );
    assertRefused(define({ timeout: 0 }), /timeout: 0/);
    assertRefused(define({ size: 0 }), /set size: 0/);
    assertRefused(define({ name: "table" }), /"table" is not a valid name/);
  });

  it("data of the wrong kind are refused", () => {
    const add =
      (data: SetDefinition["data"], given: readonly number[] | typeof accept): (() => unknown) =>
      () =>
        requestsOf([
          {
            kind: "add elements",
            table,
            set: { ...plain, ...(data === undefined ? {} : { data }) },
            elements: [{ key: [address], data: "kind" in given ? { kind: "drop" } : given }],
          },
        ]);
    assertRefused(add(undefined, [1]), /values as data; expected none in a set/);
    assertRefused(add("verdict", [1]), /values as data; expected a verdict/);
    assertRefused(add(["mark"], accept), /drop as data; expected values/);
    assertRefused(add(["mark"], [1, 2]), /2 fields; expected 1/);
  });

  it("100,000 elements take several messages, none longer than 64 KiB", () => {
    const elements = Array.from({ length: 100_000 }, (_, index) => ({ key: [index] }));
    const requests = requestsOf([{ kind: "add elements", table, set: plain, elements }]);
    assert.ok(requests.length > 20 && requests.every(({ body }) => body.length < 65_536));
  });

  it("durations are printed as nft prints them, from days to milliseconds", () => {
    const texts = [0, 1, 999, 1000, 90_000, 3_600_000, 90_061_001].map((one) => formatNftDuration(one));
    assert.deepEqual(texts, ["0s", "1ms", "999ms", "1s", "1m30s", "1h", "1d1h1m1s1ms"]);
  });

  it("the text of an owned table has its owner flags", () => {
    const owned = { ...table, isOwned: true, sets: [], chains: [] };
    assert.equal(formatTable(owned, new Map()), "table inet t {\n\tflags owner,persist\n}\n");
    assert.equal(formatChanges([{ kind: "add table", table: owned }]), "add table inet t { flags owner,persist; }\n");
  });
});
