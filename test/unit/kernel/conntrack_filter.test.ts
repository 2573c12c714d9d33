import assert from "node:assert/strict";
import { endianness } from "node:os";
import fc from "fast-check";
import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../../kernel/conntrack/filter.ts";
import { dumpEntries } from "../../../kernel/conntrack/request.ts";
import type { ConntrackTuple } from "../../../kernel/conntrack/tuple.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import type { IpProtocol } from "../../../kernel/ip/protocol.ts";
import { skip } from "../../support/privilege.ts";

const client = parseAddress("10.9.1.2");
const service = parseAddress("10.96.0.1");

describe("kernel/conntrack filter", () => {
  before(function () {
    if (endianness() !== "LE") skip(this, "the bytes are little-endian");
  });

  const addresses = ["10.0.0.1", "10.0.0.2", "fd00::1", "fd00::2"].map((text) => parseAddress(text));
  const port = fc.constantFrom(80, 443);
  const word = fc.nat(3);
  const protocol = fc.constantFrom<IpProtocol[]>("tcp", "udp", 47);
  const entry = fc
    .record({
      v4: fc.boolean(),
      ends: fc.tuple(fc.nat(1), fc.nat(1)),
      ports: fc.tuple(port, port),
      protocol,
      word,
      zone: word,
    })
    .map(({ v4, ends, ports, protocol: number, word: bits, zone }): ConntrackEntry => {
      const [source, destination] = ends.map((end) => addresses[end + (v4 ? 0 : 2)] ?? client);
      const original: ConntrackTuple = {
        protocol: number,
        source: source ?? client,
        destination: destination ?? client,
        sourcePort: ports[0],
        destinationPort: ports[1],
        icmp: undefined,
      };
      const reply = { ...original, source: original.destination, destination: original.source };
      const rest = {
        zone,
        zoneDirection: "both",
        id: 1,
        timeout: 1,
        counters: undefined,
        tcpState: undefined,
      } as const;
      return { family: v4 ? 4 : 6, original, reply, status: bits, mark: bits, labels: BigInt(bits), ...rest };
    });
  const tuple = fc.record(
    {
      source: fc.constantFrom(...addresses),
      destination: fc.constantFrom(...addresses),
      sourcePort: port,
      destinationPort: port,
    },
    { requiredKeys: [] },
  );
  const masked = fc.record({ value: word, mask: word });
  const filter: fc.Arbitrary<ConntrackFilter> = fc.record(
    {
      family: fc.constantFrom(4 as const, 6 as const),
      protocol,
      original: tuple,
      reply: tuple,
      zone: word,
      status: masked,
      mark: masked,
    },
    { requiredKeys: [] },
  );

  it("a filter matches an entry exactly when each of its fields agrees", () => {
    fc.assert(
      fc.property(filter, entry, (wanted, actual) => {
        const bits = ({ value, mask } = { value: 0, mask: 0 }, held: number): boolean =>
          (held & mask) === (value & mask);
        const agrees = (part: object | undefined, whole: object): boolean =>
          Object.entries(part ?? {}).every(([name, value]) => Reflect.get(whole, name) === value);
        const { family, protocol: number, original, reply, zone, status, mark } = wanted;
        const expected =
          agrees({ ...(family && { family }), ...(zone !== undefined && { zone }) }, actual) &&
          agrees({ ...(number && { protocol: number }), ...original }, actual.original) &&
          agrees(reply, actual.reply) &&
          bits(status, actual.status) &&
          bits(mark, actual.mark);
        assert.equal(matchesFilter(wanted, actual), expected);
      }),
      { numRuns: 2000 },
    );
  });

  it("a dump request has the filter's IPv4 addresses, protocol, ports, status and mark", () => {
    const request = dumpEntries({
      protocol: "tcp",
      original: { destination: service, destinationPort: 80 },
      status: { value: 4, mask: 6 },
    });
    assert.equal(
      Buffer.from(request.body).toString("hex"),
      "02000000" +
        ("24000180" + "0c000180" + "08000200" + "0a600001" + "14000280" + "0500010006000000" + "0600030000500000") +
        ("14001980" + "080001002a000000" + "0800020000000000") +
        "0800030000000004" +
        "08001a0000000006",
    );
  });
});
