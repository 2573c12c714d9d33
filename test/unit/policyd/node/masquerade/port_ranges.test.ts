import type { PortRange } from "../../../../../kernel/ip/port_range.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { podPorts, shareCount, sharesOf, sizeOf } from "../../../../../policyd/node/masquerade/port_ranges.ts";
import { boundPorts, portRanges, receivingSockets } from "../../../../../policyd/node/masquerade/taken_ports.ts";

const LOCAL: PortRange = { first: 32_768, last: 60_999 };

function has(ranges: readonly PortRange[], port: number): boolean {
  return ranges.some(({ first, last }) => first <= port && port <= last);
}

describe("policyd/node: the source ports of masqueraded pods", () => {
  it("POD-25: the ports of pods exclude the kernel's local range, node ports and ports that are taken", () => {
    const { ranges, isApart } = podPorts({ local: LOCAL, taken: [{ first: 7946, last: 7946 }] });
    assert.ok(isApart);
    for (const port of [0, 53, 1023, 2379, 4789, 6443, 7946, 10_250, 10_256, 30_000, 32_767, 32_768, 60_999]) {
      assert.ok(!has(ranges, port), `${port}`);
    }
    for (const port of [1024, 7945, 7947, 29_999, 61_000, 65_535]) assert.ok(has(ranges, port), `${port}`);
    assert.ok(sizeOf(ranges) > 33_000, `${sizeOf(ranges)}`);
  });

  it("POD-25: where the administrator's range leaves too few ports, pods share it, without node ports and taken ones", () => {
    const { ranges, isApart } = podPorts({
      local: { first: 1024, last: 65_000 },
      taken: [{ first: 7946, last: 7946 }],
    });
    assert.ok(!isApart);
    for (const port of [7946, 10_250, 30_000]) assert.ok(!has(ranges, port), `${port}`);
    assert.ok(sizeOf(ranges) > 60_000);
  });

  it("POD-25: shares are disjoint ranges of allowed ports, and each pod of a usual node has more than sixty ports", () => {
    const anyRange = fc.tuple(fc.integer({ min: 1, max: 65_535 }), fc.integer({ min: 0, max: 300 }));
    fc.assert(
      fc.property(fc.array(anyRange, { maxLength: 60 }), fc.integer({ min: 1, max: 600 }), (pairs, pods) => {
        const taken = pairs.map(([first, more]) => ({ first, last: Math.min(65_535, first + more) }));
        const { ranges } = podPorts({ local: LOCAL, taken });
        const shares = sharesOf(ranges, shareCount(pods));
        assert.ok(shares.length >= Math.min(pods, 512));
        for (const { first, last } of shares.flat()) {
          assert.ok(first <= last);
          assert.ok(ranges.some((range) => range.first <= first && last <= range.last));
        }
        const ascending = shares.flat().toSorted((a, b) => a.first - b.first);
        for (const [i, { last }] of ascending.entries()) assert.ok(last < (ascending[i + 1]?.first ?? 65_536));
      }),
    );
    const { ranges } = podPorts({ local: LOCAL, taken: [] });
    assert.ok(sharesOf(ranges, shareCount(250)).every((share) => sizeOf(share) > 60));
    assert.ok(sharesOf(ranges, shareCount(16)).every((share) => sizeOf(share) > 1000));
  });

  it("POD-25: with 1,024 spread ports taken the smallest of 128, 256 and 512 shares has as many ports as docs/limits.md says", () => {
    const { ranges: all } = podPorts({ local: LOCAL, taken: [] });
    const free = all.flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, (_, i) => first + i));
    const taken = Array.from({ length: 1024 }, (_, i) => free[Math.floor((i * free.length) / 1024)] ?? 0);
    const { ranges } = podPorts({ local: LOCAL, taken: taken.map((port) => ({ first: port, last: port })) });
    const smallest = [128, 256, 512].map((count) => Math.min(...sharesOf(ranges, count).map(sizeOf)));
    assert.deepEqual(smallest, [190, 92, 32]);
  });

  it("POD-25: a share has as many of a part's longest ranges as give most ports if connections spread over them evenly", () => {
    const sizes = (...lengths: readonly number[]): readonly number[] => {
      const ranges = lengths.map((length, index) => ({
        first: 1000 * (index + 1),
        last: 1000 * (index + 1) + length - 1,
      }));
      return sharesOf(ranges, 1).flatMap((share) => share.map((range) => sizeOf([range])));
    };
    assert.deepEqual(sizes(100), [100]);
    assert.deepEqual(sizes(40, 100), [100]);
    assert.deepEqual(sizes(50, 100), [100]);
    assert.deepEqual(sizes(60, 100, 36), [100, 60]);
    assert.deepEqual(sizes(40, 100, 35), [100, 40, 35]);
    assert.deepEqual(
      sizes(...Array.from({ length: 20 }, () => 32)),
      Array.from({ length: 8 }, () => 32),
    );
  });

  it("POD-25: a port is taken by a listening TCP socket or by any UDP socket", () => {
    const tcp = [
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
      "   0: 00000000:1F0A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1",
      "   1: 0100007F:9C40 0100007F:1F0A 01 00000000:00000000 00:00000000 00000000     0        0 1 1",
    ].join("\n");
    assert.deepEqual(boundPorts(tcp, "tcp"), [{ first: 0x1f0a, last: 0x1f0a }]);
    const udp6 =
      "  sl  local_address remote_address st\n   9: 00000000000000000000000000000000:1F0A 00000000000000000000000000000000:0000 07 0";
    assert.deepEqual(boundPorts(udp6, "udp"), [{ first: 7946, last: 7946 }]);
    assert.deepEqual(boundPorts("", "udp"), []);
  });

  it("CLAIM-06: TCP listeners and unconnected UDP sockets receive from anywhere, at the address in words of the processor's order", () => {
    const found = (local: string, remote: string, state: string, protocol: "tcp" | "udp"): readonly string[] =>
      receivingSockets(`head\n 0: ${local} ${remote} ${state} 0`, protocol).map(
        ({ address, port, protocol: name }) => `${name} ${String(address)} ${port}`,
      );
    const none = "00000000:0000";
    const none6 = `${"0".repeat(32)}:0000`;
    assert.deepEqual(found("00000000:0016", none, "0A", "tcp"), ["TCP IPv4 22"]);
    assert.deepEqual(found("010200C0:0016", none, "0A", "tcp"), ["TCP 3221225985 22"]);
    assert.deepEqual(found("010200C0:0016", "020200C0:9C40", "01", "tcp"), []);
    assert.deepEqual(found(`${"0".repeat(32)}:0016`, none6, "0A", "tcp"), ["TCP undefined 22"]);
    assert.deepEqual(found("0000000000000000FFFF0000010200C0:0016", none6, "0A", "tcp"), ["TCP 3221225985 22"]);
    assert.deepEqual(found("B80D0120000000000000000001000000:0035", none6, "07", "udp"), [
      "UDP 42540766411282592856903984951653826561 53",
    ]);
    assert.deepEqual(found("010200C0:0035", none, "07", "udp"), ["UDP 3221225985 53"]);
    assert.deepEqual(found("010200C0:9C40", "08080808:0035", "01", "udp"), []);
  });

  it("POD-25: a list of ports is read as the kernel writes it, and other text is omitted", () => {
    assert.deepEqual(portRanges("8080,9148-9150\n"), [
      { first: 8080, last: 8080 },
      { first: 9148, last: 9150 },
    ]);
    for (const text of ["", "\n", "x", "9-1", "70000", "1-70000"]) assert.deepEqual(portRanges(text), [], text);
  });
});
