import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { formatAddress } from "../../../../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../../../../kernel/error.ts";
import { type ReadConnections, readConntrack } from "../../../../../cli/policy/live/conntrack_text.ts";

const PLAIN =
  "tcp      6 431999 ESTABLISHED src=10.244.0.2 dst=10.96.0.10 sport=40001 dport=80 src=10.244.0.3 dst=10.244.0.2 sport=8080 dport=40001 [ASSURED] mark=0 use=1";
const EXTENDED =
  "ipv6     10 udp      17 29 src=fd00:244::2 dst=fd00:244::3 sport=40001 dport=53 [UNREPLIED] src=fd00:244::3 dst=fd00:244::2 sport=53 dport=40001 mark=0 use=1";
const COUNTED =
  "ipv4     2 icmp     1 29 src=10.244.0.2 dst=10.244.0.3 type=8 code=0 id=7 packets=1 bytes=84 src=10.244.0.3 dst=10.244.0.2 type=0 code=0 id=7 packets=1 bytes=84 mark=0 use=1";

const read = (...texts: readonly string[]): ReadConnections =>
  readConntrack(
    texts.map((text) => Buffer.from(text)),
    "node1.txt",
  );

const reported = ({ connections }: ReadConnections): readonly string[] =>
  connections.map(
    ({ protocol, source, sourcePort, asked, askedPort, destination, port }) =>
      `${protocol} ${formatAddress(source)} ${String(sourcePort)} ${formatAddress(asked)} ${String(askedPort)} ${formatAddress(destination)} ${String(port)}`,
  );

describe("cli/policy/live: conntrack's output", () => {
  it("LIVE-01: entries are read from conntrack -L, with -o extended and with counters", () => {
    const expected = [
      "TCP 10.244.0.2 40001 10.96.0.10 80 10.244.0.3 8080",
      "UDP fd00:244::2 40001 fd00:244::3 53 fd00:244::3 53",
      "ICMP 10.244.0.2 undefined 10.244.0.3 undefined 10.244.0.3 undefined",
    ];
    assert.deepEqual(reported(read(`${PLAIN}\n${EXTENDED}\n${COUNTED}\n`)), expected);
    const sctp = PLAIN.replace(/^tcp +6/, "sctp 132");
    assert.deepEqual(reported(read(`conntrack v1.4.7 (conntrack-tools): 1 flow entry\n  ${sctp}`)), [
      "SCTP 10.244.0.2 40001 10.96.0.10 80 10.244.0.3 8080",
    ]);
  });

  it("LIVE-01: entries of protocols without policies are counted and not evaluated", () => {
    const gre = "ipv4 2 gre 47 29 src=10.0.0.1 dst=10.0.0.2 srckey=0x0 dstkey=0x0 src=10.0.0.2 dst=10.0.0.1 use=1";
    const unknown = "unknown 2 29 src=10.0.0.1 dst=10.0.0.2 src=10.0.0.2 dst=10.0.0.1 use=1";
    assert.deepEqual(read(`${gre}\n${unknown}\n${PLAIN}\n`).others, 2);
  });

  it("LIVE-01: TCP connections that have ended are marked, and others are not", () => {
    const line = (state: string): string =>
      `ipv4 2 tcp 6 100 ${state} src=10.0.0.1 dst=10.0.0.2 sport=1 dport=80 src=10.0.0.2 dst=10.0.0.1 sport=80 dport=1 [ASSURED] mark=0 use=1\n`;
    const ended = (state: string) =>
      readConntrack([Buffer.from(line(state))], "t").connections.map(({ hasEnded }) => hasEnded);
    assert.deepEqual(
      [ended("TIME_WAIT"), ended("CLOSE"), ended("ESTABLISHED"), ended("CLOSE_WAIT")],
      [[true], [true], [undefined], [undefined]],
    );
  });

  it("LIVE-01: a line that is invalid, has a forged address or port, or is too long is refused with its number", () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      ["hello\n", /^node1.txt:1: expected an entry as conntrack -L prints it$/],
      [`${PLAIN}\n${PLAIN.replace("10.244.0.3", "10.244.0.3.4")}\n`, /^node1.txt:2: /],
      [PLAIN.replace("sport=8080", "sport=80800"), /^node1.txt:1: /],
      [PLAIN.replace("src=10.244.0.3", "src=fd00::1"), /^node1.txt:1: /],
      [PLAIN.replace("src=10.244.0.2 ", "src=\u001b[2J "), /^node1.txt:1: /],
      ['<?xml version="1.0" encoding="utf-8"?>', /^node1.txt:1: /],
      ["x".repeat(20_000), /^node1.txt:1: a line of more than 16384 characters$/],
    ];
    for (const [text, expected] of cases) {
      assert.throws(
        () => read(text),
        (error) => error instanceof DrawbridgeError && error.code === "ERR_INPUT" && expected.test(error.message),
        text.slice(0, 200),
      );
    }
  });

  it("LIVE-01: a file with too many connections is refused at the limit, and not read further", () => {
    let pieces = 0;
    const endless = function* (): Generator<Uint8Array> {
      for (;;) {
        pieces++;
        yield Buffer.from(`${PLAIN.replace("sport=40001", `sport=${pieces}`)}\n`);
      }
    };
    assert.throws(
      () => readConntrack(endless(), "node1.txt", 1000),
      /^DrawbridgeError: node1.txt:1001: expected at most 1000 /,
    );
    assert.equal(pieces, 1001);
  });
});
