import assert from "node:assert/strict";
import { endianness } from "node:os";
import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import { type ConntrackFilter, matchesFilter } from "../../../kernel/conntrack/filter.ts";
import { dumpEntries } from "../../../kernel/conntrack/request.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { skip } from "../../support/privilege.ts";

const client = parseAddress("10.9.1.2");
const service = parseAddress("10.96.0.1");

describe("kernel/conntrack filter", () => {
  before(function () {
    if (endianness() !== "LE") skip(this, "the bytes are little-endian");
  });

  it("a filter matches an entry exactly when each of its fields agrees", () => {
    const original = {
      protocol: "tcp",
      source: client,
      destination: service,
      sourcePort: 1234,
      destinationPort: 80,
      icmp: undefined,
    } as const;
    const reply = { ...original, source: service, destination: client, sourcePort: 80, destinationPort: 1234 };
    const entry: ConntrackEntry = {
      family: 4,
      original,
      reply,
      status: 0b101,
      mark: 0,
      labels: 0n,
      zone: 0,
      zoneDirection: "both",
      id: 1,
      timeout: 1,
      tcpState: undefined,
    };
    const fields: readonly (readonly [agrees: ConntrackFilter, differs: ConntrackFilter])[] = [
      [{}, { family: 6 }],
      [{ family: 4 }, { protocol: "udp" }],
      [{ protocol: "tcp" }, { protocol: 47 }],
      [{ original: { source: client } }, { original: { source: service } }],
      [{ original: { destinationPort: 80 } }, { original: { source: client, destinationPort: 443 } }],
      [{ reply: { source: service } }, { reply: { source: client } }],
      [{ status: { value: 0b100, mask: 0b110 } }, { status: { value: 0b100, mask: 0b101 } }],
      [{ status: { value: 0b010, mask: 0 } }, { status: { value: 0b000, mask: 0b100 } }],
    ];
    for (const [agrees, differs] of fields) {
      assert.equal(matchesFilter(agrees, entry), true, JSON.stringify(agrees));
      assert.equal(matchesFilter(differs, entry), false, JSON.stringify(differs));
      for (const [other] of fields) assert.equal(matchesFilter({ ...differs, ...other, ...differs }, entry), false);
    }
  });

  it("a dump request has the filter's IPv4 addresses, protocol, ports, status and mark", () => {
    const request = dumpEntries({
      protocol: "tcp",
      original: { source: client, destinationPort: 80 },
      status: { value: 4, mask: 6 },
    });
    assert.equal(
      Buffer.from(request.body).toString("hex"),
      "02000000" +
        ("24000180" + "0c000180" + "08000100" + "0a090102" + "14000280" + "0500010006000000" + "0600030000500000") +
        ("14001980" + "0800010029000000" + "0800020000000000") +
        "0800030000000004" +
        "08001a0000000006",
    );
  });
});
