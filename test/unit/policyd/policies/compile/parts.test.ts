import assert from "node:assert/strict";
import * as fc from "fast-check";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import type { PortGroup } from "../../../../../policyd/policies/compile/profile.ts";
import { isSelected } from "../../../../../policyd/policies/compile/selector.ts";
import { selects } from "../../../../../objects/semantics/policies/selector.ts";
import type { LabelRequirement } from "../../../../../objects/model.ts";
import { logPrefix, parseLogPrefix } from "../../../../../policyd/policies/compile/log_prefix.ts";
import { memberKeys, type MemberSource } from "../../../../../policyd/policies/compile/sets/member_set.ts";
import { numberedPorts } from "../../../../../policyd/policies/compile/numbered_ports.ts";
import { originComment } from "../../../../../policyd/policies/compile/plain_rules.ts";

const PROTOCOLS = ["TCP", "UDP"] as const;

const port: fc.Arbitrary<PortGroup> = fc.oneof(
  fc
    .record({ protocol: fc.constantFrom(...PROTOCOLS), first: fc.nat(20), length: fc.constantFrom(0, 0, 0, 1, 3) })
    .map(({ protocol, first, length }): PortGroup => ({ type: "range", protocol, first, last: first + length })),
  fc.constant<PortGroup>({ type: "name", protocol: "TCP", name: "http" }),
);

describe("policyd/policies/compile: parts", () => {
  it("numbered ports stay the same ports, each once, and ranges do not touch", () => {
    fc.assert(
      fc.property(fc.array(port), (groups) => {
        const { singles, ranges } = numberedPorts(groups);
        for (const protocol of PROTOCOLS) {
          for (let number = 0; number <= 25; number++) {
            const isWanted = groups.some(
              (one) => one.type === "range" && one.protocol === protocol && one.first <= number && number <= one.last,
            );
            const found = [
              ...singles.filter((one) => one.protocol === protocol && one.port === number),
              ...ranges.filter((one) => one.protocol === protocol && one.first <= number && number <= one.last),
            ];
            assert.equal(found.length, isWanted ? 1 : 0, `${protocol} ${number}`);
          }
          const own = ranges.filter((one) => one.protocol === protocol);
          assert.ok(own.every(({ first }, index) => first > (own[index - 1]?.last ?? -2) + 1));
        }
        assert.ok(ranges.every(({ first, last }) => first < last));
      }),
    );
  });

  it("POL-31: a member's keys are its address, or its address at ports by number or by its own port names", () => {
    const address = parseAddress("10.244.1.5");
    const ports = [
      { name: "dns", protocol: "TCP", port: 53 },
      { name: "dns", protocol: "UDP", port: 53 },
      { name: "http", protocol: "TCP", port: 80 },
    ] as const;
    const keys = (source: MemberSource["ports"]) => memberKeys({ group: undefined, ports: source }, address, ports);
    assert.deepEqual(keys({ type: "none" }), [[address]]);
    assert.deepEqual(keys({ type: "numbers", ports: [{ protocol: "SCTP", port: 7 }] }), [[address, "sctp", 7]]);
    assert.deepEqual(keys({ type: "name", protocol: "UDP", name: "dns" }), [[address, "udp", 53]]);
    assert.deepEqual(keys({ type: "name", protocol: undefined, name: "dns" }), [
      [address, "tcp", 53],
      [address, "udp", 53],
    ]);
    assert.deepEqual(keys({ type: "name", protocol: "TCP", name: "other" }), []);
  });

  it("SHARE-08: the keys of a pod with 2,000 named ports are found for as many names by reading each port a few times, not once for each name", () => {
    const address = parseAddress("10.244.1.5");
    let reads = 0;
    const ports = Array.from({ length: 2000 }, (_, index) => ({
      get name() {
        reads++;
        return `p${index}`;
      },
      protocol: "TCP" as const,
      port: index + 1,
    }));
    for (let index = 0; index < 2000; index++) {
      const source = { type: "name", protocol: undefined, name: `p${index}` } as const;
      assert.deepEqual(memberKeys({ group: undefined, ports: source }, address, ports), [[address, "tcp", index + 1]]);
    }
    assert.ok(reads <= 3 * 2000, `${reads} reads of ports`);
  });

  it("POL-10: a selector selects the same labels as the reference evaluator says, whatever its requirements", () => {
    const value = fc.constantFrom("x", "y", "z");
    // Most selectors of ten keys have more keys than labels are asked for, and those of two have fewer.
    const key = fc.oneof(fc.constantFrom("a", "b"), fc.constantFrom(..."abcdefghij".split("")));
    const expression = fc.oneof(
      fc.record({ key, operator: fc.constantFrom("In" as const, "NotIn" as const), values: fc.array(value) }),
      fc.record({
        key,
        operator: fc.constantFrom("Exists" as const, "DoesNotExist" as const),
        values: fc.constant([]),
      }),
    );
    const labels = fc.dictionary(key, value);
    fc.assert(
      fc.property(labels, fc.array(expression, { maxLength: 12 }), labels, (matchLabels, matchExpressions, asked) => {
        const selector = { matchLabels, matchExpressions };
        assert.equal(isSelected(selector, asked), selects(selector, asked));
      }),
    );
  });

  it("SHARE-08: the requirements of a selector are read once, however many pods it is asked for", () => {
    let reads = 0;
    const requirement = (index: number): LabelRequirement => ({
      get key() {
        reads++;
        return `k${index}`;
      },
      operator: "NotIn",
      values: ["a"],
    });
    const selector = {
      matchLabels: {},
      matchExpressions: Array.from({ length: 1000 }, (_, index) => requirement(index)),
    };
    const selected = Array.from({ length: 100 }, (_, pod) => isSelected(selector, { k7: pod === 7 ? "a" : "b" }));
    assert.deepEqual([selected.indexOf(false), reads], [7, 1000]);
  });

  it("SHARE-08: a selector reads as many labels of a pod as it has keys, or all where these are fewer, and counts them once", () => {
    for (const [keys, count, most] of [
      [1, 512, 1],
      [20, 512, 20],
      [500, 512, 500],
      [500, 2, 2],
    ] as const) {
      let [reads, listings] = [0, 0];
      const own = Object.fromEntries(Array.from({ length: count }, (_, index) => [`l${index}`, "a"]));
      const labels = new Proxy(own, {
        get: (target, key) => {
          reads++;
          return target[String(key)];
        },
        ownKeys: (target) => {
          listings++;
          return Reflect.ownKeys(target);
        },
      });
      const requirement = (_: unknown, index: number): LabelRequirement => ({
        key: `k${index}`,
        operator: "DoesNotExist",
        values: [],
      });
      const selector = { matchLabels: {}, matchExpressions: Array.from({ length: keys }, requirement) };
      for (let time = 0; time < 10; time++) assert.ok(isSelected(selector, labels));
      assert.ok(reads <= 10 * most, `${keys} keys, ${count} labels: ${reads} reads`);
      assert.ok(listings <= (keys > count ? 11 : 1), `${keys} keys, ${count} labels: listed ${listings} times`);
    }
  });

  it("a log prefix tells its direction, profile and outcome, and other text is not a prefix", () => {
    for (const direction of ["egress", "ingress"] as const) {
      for (const outcome of ["drop", "would drop"] as const) {
        const origin = { direction, key: "0123456789abcdef", outcome };
        assert.deepEqual(parseLogPrefix(logPrefix(origin)), origin);
      }
    }
    for (const text of ["", "drawbridge egress 0123 drop", "drawbridge ingress 0123456789abcdef drop "]) {
      assert.equal(parseLogPrefix(text), undefined);
    }
  });

  it("the comment of a policy with the longest name still has the place of its rule", () => {
    const policy = `${"n".repeat(63)}/${"p".repeat(253)}`;
    const comment = originComment({ kind: "NetworkPolicy", policy, index: 12 });
    assert.equal(comment.length, 127);
    assert.match(comment, /^NetworkPolicy rule 12 of n+\/p+$/);
  });
});
