import assert from "node:assert/strict";
import process from "node:process";
import fc from "fast-check";
import { type Address, formatAddress, parseAddress } from "../../../../../kernel/ip/address.ts";
import { parseDnsAnswer } from "../../../../../policyd/policies/names/dns_answer.ts";
import { learn } from "../../../../../policyd/policies/names/addresses_in_answer.ts";
import { roundsFor } from "../../../../support/long_form.ts";
import { dnsResponse, type ResponseForm, type ResponseRecord } from "../../../../support/policy/dns_response.ts";

const V4 = parseAddress("203.0.113.7");
const V6 = parseAddress("2001:db8::7");
const OTHER = parseAddress("198.51.100.9");
const NAME = "api.example.com";

/** Returns what is learned, as `address seconds`, and refused addresses after "-". */
function learned(bytes: Uint8Array, ofCluster: readonly Address[] = []): readonly string[] | undefined {
  const answer = parseDnsAnswer(bytes);
  if (answer === undefined) return undefined;
  const { addresses, refused } = learn(answer, (address) => ofCluster.includes(address));
  return [
    ...addresses.map(({ address, milliseconds }) => `${formatAddress(address)} ${milliseconds / 1000}`),
    ...refused.map((address) => `-${formatAddress(address)}`),
  ];
}

function response(records: readonly ResponseRecord[], form?: ResponseForm): readonly string[] | undefined {
  return learned(dnsResponse(NAME, records, form));
}

describe("addresses in DNS answers", () => {
  const answers: readonly (readonly [string, readonly ResponseRecord[], readonly string[]])[] = [
    [
      "both families",
      [
        [NAME, V4],
        [NAME, V6],
      ],
      ["203.0.113.7 300", "2001:db8::7 300"],
    ],
    ["upper case", [["API.example.COM", V4]], ["203.0.113.7 300"]],
    [
      "a time to live of 0 and of a day",
      [
        [NAME, V4, 0],
        [NAME, OTHER, 86_400],
      ],
      ["203.0.113.7 60", "198.51.100.9 3600"],
    ],
    ["another name", [["other.example.com", V4]], []],
    [
      "aliases",
      [
        [NAME, "a.cdn.net", 120],
        ["a.cdn.net", "b.cdn.net"],
        ["b.cdn.net", V4, 900],
      ],
      ["203.0.113.7 120"],
    ],
    [
      "aliases in another order",
      [
        ["a.cdn.net", V4],
        [NAME, "a.cdn.net"],
      ],
      ["203.0.113.7 300"],
    ],
    [
      "aliases in a circle",
      [
        [NAME, "a.cdn.net"],
        ["a.cdn.net", NAME],
        ["a.cdn.net", V4],
      ],
      ["203.0.113.7 300"],
    ],
    [
      "an alias of another name",
      [
        ["other.example.com", "a.cdn.net"],
        ["a.cdn.net", V4],
      ],
      [],
    ],
    ["hints of an HTTPS record", [[NAME, [65, Uint8Array.from([0, 1, 0, 0, 4, 0, 4, 203, 0, 113, 7])]]], []],
    ["an address of 5 bytes", [[NAME, [1, Uint8Array.from([203, 0, 113, 7, 1])]]], []],
  ];
  for (const [what, records, expected] of answers) {
    it(`NAME-03: an answer with ${what} gives ${expected.join(", ") || "nothing"}`, () => {
      assert.deepEqual(response(records), expected);
      assert.deepEqual(response(records, { isCompressed: false }), expected);
    });
  }

  it("NAME-03: at most 16 aliases are followed", () => {
    const chain = (length: number): readonly ResponseRecord[] => [
      ...Array.from({ length }, (_, i): ResponseRecord => [i === 0 ? NAME : `a${i}.cdn.net`, `a${i + 1}.cdn.net`]),
      [`a${length}.cdn.net`, V4],
    ];
    assert.deepEqual([response(chain(16)), response(chain(17))], [["203.0.113.7 300"], []]);
  });

  const INSIDE =
    "10.0.0.1 172.31.0.1 192.168.1.1 100.64.0.1 127.0.0.1 169.254.169.254 0.0.0.0 224.0.0.1 255.255.255.255 " +
    "192.0.0.192 198.19.255.254 168.63.129.16";
  const INSIDE_V6 =
    "::1 :: fe80::1 fec0::1 fd00::1 ff02::1 5f00::1 ::ffff:203.0.113.7 ::ffff:0:203.0.113.7 ::203.0.113.7";
  const THROUGH_TUNNELS = "64:ff9b::10.0.0.1 64:ff9b::169.254.169.254 64:ff9b:1::203.0.113.7 2002:a00:1::1 2001::1";
  for (const text of [...INSIDE.split(" "), ...INSIDE_V6.split(" "), ...THROUGH_TUNNELS.split(" ")]) {
    it(`NAME-04: ${text} for an outside name is refused`, () => {
      const address = parseAddress(text);
      assert.deepEqual(
        response([
          [NAME, address],
          [NAME, OTHER],
        ]),
        ["198.51.100.9 300", `-${formatAddress(address)}`],
      );
    });
  }

  it("NAME-04: an address of a pod or a node is refused, also if it is public", () => {
    assert.deepEqual(learned(dnsResponse(NAME, [[NAME, V4]]), [V4]), ["-203.0.113.7"]);
    const behindNat64 = parseAddress("64:ff9b::203.0.113.7");
    assert.deepEqual(learned(dnsResponse(NAME, [[NAME, behindNat64]]), [V4]), ["-64:ff9b::cb00:7107"]);
    assert.deepEqual(response([[NAME, behindNat64]]), ["64:ff9b::cb00:7107 300"]);
  });

  const ignored: readonly (readonly [string, ResponseForm])[] = [
    ["a query", { flags: 0x0100 }],
    ["a failure", { flags: 0x8183 }],
    ["an update", { flags: 0xa980 }],
    ["more records than it has", { answerCount: 2 }],
  ];
  for (const [what, form] of ignored) {
    it(`NAME-05: ${what} counts for nothing`, () => {
      assert.equal(response([[NAME, V4]], form), undefined);
    });
  }

  it("NAME-05: a truncated answer counts for what it has, and records of another class for nothing", () => {
    assert.deepEqual(response([[NAME, V4]], { flags: 0x8380 }), ["203.0.113.7 300"]);
    assert.deepEqual(response([[NAME, V4]], { recordClass: 3 }), []);
  });

  it("NAME-05: a label with a dot, a zero, an escape or bytes beyond ASCII in it equals no name, and a name that leads in a circle or forward ends the reading", () => {
    const bytes = dnsResponse("api.example.com", [[NAME, V4]]);
    for (const label of ["api.example", "api\0example", "api\u001bexample", "\u00e4pi-exampl"]) {
      const strange = bytes.slice();
      strange.set([0x0b, ...Buffer.from(label)], 12);
      assert.equal(parseDnsAnswer(strange), undefined, label);
    }
    for (const target of [12, 30, 0x3fff]) {
      const looped = bytes.slice();
      looped.set([0xc0 | (target >>> 8), target & 0xff], 12);
      assert.equal(parseDnsAnswer(looped), undefined);
    }
  });

  it("NAME-05: 64 KB of records with the longest possible names take less than 200 ms of a processor", () => {
    const long = Array.from({ length: 120 }, () => "a").join(".");
    const record = (i: number): ResponseRecord => [i === 0 ? long : `x.${long}`, V4];
    const bytes = dnsResponse(
      "example.com",
      Array.from({ length: 4000 }, (_, i) => record(i)),
    );
    const began = process.cpuUsage();
    assert.equal(parseDnsAnswer(bytes.subarray(0, 65_535))?.records.length, 128);
    const { user, system } = process.cpuUsage(began);
    assert.ok(user + system < 200_000, `${user + system} µs`);
  });

  it("NAME-05: mutated answers crash nothing, and give only addresses of the name that their question has", () => {
    const whole = dnsResponse(NAME, [
      [NAME, "a.cdn.net"],
      ["a.cdn.net", V4],
      ["a.cdn.net", V6],
      ["other.net", OTHER],
    ]);
    const change = fc.record({
      at: fc.nat(whole.length - 1),
      byte: fc.oneof(fc.nat(255), fc.constantFrom(0xc0, 12, 0)),
    });
    const cut = fc.integer({ min: 0, max: whole.length });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 6 }), cut, (changes, length) => {
        const bytes = whole.slice();
        for (const { at, byte } of changes) bytes[at] = byte;
        const answer = parseDnsAnswer(bytes.subarray(0, length));
        if (answer === undefined) return;
        const leads = new Set([answer.name]);
        for (let i = 0; i < answer.records.length; i++) {
          for (const { name, leadsTo } of answer.records) {
            if (leads.has(name) && "alias" in leadsTo) leads.add(leadsTo.alias);
          }
        }
        const possible = answer.records.flatMap(({ name, leadsTo }) =>
          leads.has(name) && "address" in leadsTo ? [leadsTo.address] : [],
        );
        for (const { address } of learn(answer, () => false).addresses) assert.ok(possible.includes(address));
      }),
      { numRuns: roundsFor("rounds", 3000, 100_000) },
    );
  });
});
