import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { conntrackLine } from "../../../../cli/node/connections/conntrack_line.ts";
import { readConntrack } from "../../../../cli/policy/live/conntrack_text.ts";
import { type ConntrackEntry, ConntrackStatus } from "../../../../kernel/conntrack/entry.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { nodeOf, runOnNode } from "../../../support/cli/cli.ts";
import { udpEntry } from "../../../support/services/udp_entry.ts";

const TRANSLATED = udpEntry(["10.96.0.10", 53], ["10.244.0.3", 5353]);

describe("cli/node: node connections", () => {
  it("LIVE-06: an entry is printed as conntrack -L -o extended prints it", () => {
    const { source, sourcePort } = TRANSLATED.original;
    const client = "198.51.100.1";
    assert.equal(source, parseAddress(client));
    const [asked, answer] = [
      `src=${client} dst=10.96.0.10 sport=${sourcePort} dport=53`,
      `src=10.244.0.3 dst=${client} sport=5353 dport=${sourcePort}`,
    ];
    assert.equal(
      conntrackLine({ ...TRANSLATED, status: 0, timeout: 30, mark: 7 }),
      `ipv4 2 udp 17 30 ${asked} [UNREPLIED] ${answer} mark=7 use=1\n`,
    );
    const status = ConntrackStatus.SEEN_REPLY | ConntrackStatus.ASSURED;
    assert.equal(
      conntrackLine({ ...TRANSLATED, status, timeout: undefined, tcpState: "time-wait" }),
      `ipv4 2 udp 17 TIME_WAIT ${asked} ${answer} [ASSURED] mark=0 use=1\n`,
    );
  });

  it("LIVE-06: policy dry-run --live and policy suggest read the printed entries of every protocol and both families", () => {
    const icmp = { id: 7, type: 8, code: 0 };
    const six = (host: string): ReturnType<typeof parseAddress> => parseAddress(`fd00:244::${host}`);
    const entries: readonly ConntrackEntry[] = [
      TRANSLATED,
      ...(["tcp", "sctp"] as const).map((protocol) => withTuples(TRANSLATED, { protocol })),
      withTuples(TRANSLATED, { protocol: "icmp", icmp, sourcePort: undefined, destinationPort: undefined }),
      { ...withTuples(TRANSLATED, { source: six("1"), destination: six("2") }), family: 6 },
    ];
    const { connections, others } = readConntrack([Buffer.from(entries.map(conntrackLine).join(""))], "table");
    assert.deepEqual([connections.length, others], [entries.length, 0]);
    for (const [index, { original, reply }] of entries.entries()) {
      const { source, asked, destination, port } = connections[index] ?? assert.fail();
      assert.deepEqual(
        [source, asked, destination, port],
        [original.source, original.destination, reply.source, reply.sourcePort],
      );
    }
    const gre = withTuples(TRANSLATED, { protocol: 47, sourcePort: undefined, destinationPort: undefined });
    assert.equal(readConntrack([Buffer.from(conntrackLine(gre))], "table").others, 1);
  });

  it("LIVE-06: all entries of a large table are printed, each on its line", async () => {
    const visitConnections = (visit: (entry: ConntrackEntry) => void): void => {
      for (let left = 2500; left > 0; left--) visit(TRANSLATED);
    };
    const { code, out } = await runOnNode(["node", "connections"], nodeOf({ visitConnections }));
    assert.deepEqual([code, out], [0, conntrackLine(TRANSLATED).repeat(2500)]);
  });
});

function withTuples(entry: ConntrackEntry, change: Partial<ConntrackEntry["original"]>): ConntrackEntry {
  return { ...entry, original: { ...entry.original, ...change }, reply: { ...entry.reply, ...change } };
}
