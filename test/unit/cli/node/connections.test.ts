import assert from "node:assert/strict";
import { ConntrackStatus } from "../../../../kernel/conntrack/entry.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { udpEntry } from "../../../support/services/udp_entry.ts";
import { conntrackLine } from "../../../../cli/node/connections/run.ts";

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
});
