import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { type Change, requestsOf } from "../../../kernel/nftables/encode/change.ts";
import { formatNftDuration } from "../../../kernel/nftables/text/element_text.ts";
import { randomNumber } from "../../../kernel/nftables/model/expression.ts";
import type { SetDefinition } from "../../../kernel/nftables/model/object.ts";
import { anyFlag, equals, oneOf, rule, startsWith, type Statement } from "../../../kernel/nftables/model/statement.ts";
import { formatTable } from "../../../kernel/nftables/text/text.ts";

const table = { family: "inet", name: "t" } as const;
const address = parseAddress("10.0.0.1");

function assertRefused(action: () => unknown, message: RegExp): void {
  assert.throws(
    action,
    (error) => error instanceof DrawbridgeError && error.code === "ERR_NFTABLES_VALUE" && message.test(error.message),
  );
}

describe("kernel/nftables: rules as instructions", () => {
  const refusals: readonly (readonly [string, readonly Statement[], RegExp])[] = [
    ["a set of nothing", [oneOf("tcp dport", [])], /set of no elements/],
    ["a port beyond 65535", [equals("tcp dport", 65_536)], /65536/],
    ["an unknown flag", [anyFlag("ct state", "fresh")], /"fresh"/],
    ["flags of what has none", [anyFlag("meta l4proto", "tcp")], /inet_proto/],
    ["an asterisk after a text that is not a name", [startsWith("iifname", "a b")], /"a b"/],
    ["a modulus of 0", [equals({ kind: "numgen", modulus: 0 }, 0)], /modulus: 0/],
    ["a rate of 0", [{ kind: "limit", rate: 0, unit: "second", burst: 1, isOver: false }], /limit rate: 0/],
    ["a log group beyond 65535", [{ kind: "log", prefix: "x", group: 65_536, snapLength: 1 }], /log group/],
    [
      "a chain's name that ends the statement",
      [{ kind: "verdict", verdict: { kind: "jump", chain: "a; flush ruleset" } }],
      /is not a valid name/,
    ],
  ];
  for (const [what, statements, message] of refusals) {
    it(`refuses ${what}, in a batch and in a text`, () => {
      const changes: readonly Change[] = [{ kind: "add rule", table, chain: "c", rule: rule(...statements) }];
      assertRefused(() => requestsOf(changes), message);
      const chains = [{ name: "c", rules: [rule(...statements)] }];
      assertRefused(() => formatTable({ ...table, sets: [], chains }, new Map()), message);
    });
  }
});

describe("kernel/nftables: sets and elements", () => {
  const plain: SetDefinition = { name: "s", key: ["ipv4_addr"] };

  it("a range outside of an interval set is refused", () => {
    const elements = [{ key: [{ first: address, last: parseAddress("10.0.0.9") }] }];
    assertRefused(
      () => requestsOf([{ kind: "add elements", table, set: plain, elements }]),
      /a range; expected one in an interval set only/,
    );
  });

  it("set definitions that the kernel or nft cannot take are refused", () => {
    const define =
      (set: Partial<SetDefinition>): (() => unknown) =>
      () =>
        requestsOf([{ kind: "add set", table, set: { ...plain, ...set } }]);
    assertRefused(define({ key: ["ether_addr", randomNumber(2)] }), /ether_addr beside a number/);
    assertRefused(define({ timeout: 0 }), /timeout: 0/);
    assertRefused(define({ size: 0 }), /set size: 0/);
    assertRefused(define({ name: "a b" }), /"a b" is not a valid name/);
  });

  it("data of another number of fields than the map has are refused", () => {
    const elements = [{ key: [address], data: [1, 2] }];
    const set: SetDefinition = { ...plain, data: ["mark"] };
    assertRefused(() => requestsOf([{ kind: "add elements", table, set, elements }]), /2 fields; expected 1/);
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
  });
});
