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
const XML =
  '<flow><meta direction="original"><layer3 protonum="2" protoname="ipv4"><src>10.244.0.2</src><dst>10.96.0.10</dst></layer3><layer4 protonum="132" protoname="sctp"><sport>40001</sport><dport>80</dport></layer4></meta><meta direction="reply"><layer3 protonum="2" protoname="ipv4"><src>10.244.0.3</src><dst>10.244.0.2</dst></layer3><layer4 protonum="132" protoname="sctp"><sport>8080</sport><dport>40001</dport></layer4></meta><meta direction="independent"><id>1</id></meta></flow>';

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
  it("LIVE-01: entries are read from conntrack -L, with -o extended, with counters and as XML", () => {
    const xml = `<?xml version="1.0" encoding="utf-8"?>\n<conntrack>\n${XML}\n</conntrack>\n`;
    const expected = [
      "TCP 10.244.0.2 40001 10.96.0.10 80 10.244.0.3 8080",
      "UDP fd00:244::2 40001 fd00:244::3 53 fd00:244::3 53",
      "ICMP 10.244.0.2 undefined 10.244.0.3 undefined 10.244.0.3 undefined",
    ];
    assert.deepEqual(reported(read(`${PLAIN}\n${EXTENDED}\n${COUNTED}\n`)), expected);
    assert.deepEqual(reported(read(xml)), ["SCTP 10.244.0.2 40001 10.96.0.10 80 10.244.0.3 8080"]);
    assert.deepEqual(reported(read(`<conntrack>${XML}${XML.replace("40001", "40002")}</conntrack>`)).length, 2);
  });

  it("LIVE-01: entries of protocols without policies are counted and not evaluated", () => {
    const gre = "ipv4 2 gre 47 29 src=10.0.0.1 dst=10.0.0.2 srckey=0x0 dstkey=0x0 src=10.0.0.2 dst=10.0.0.1 use=1";
    const unknown = "unknown 2 29 src=10.0.0.1 dst=10.0.0.2 src=10.0.0.2 dst=10.0.0.1 use=1";
    assert.deepEqual(read(`${gre}\n${unknown}\n${PLAIN}\n`).others, 2);
  });

  it("LIVE-01: TCP connections that have ended are marked, as text and as XML, and others are not", () => {
    const line = (state: string): string =>
      `ipv4 2 tcp 6 100 ${state} src=10.0.0.1 dst=10.0.0.2 sport=1 dport=80 src=10.0.0.2 dst=10.0.0.1 sport=80 dport=1 [ASSURED] mark=0 use=1\n`;
    const xml = (state: string): string => {
      const way = (direction: string, src: string, dst: string, sport: number, dport: number): string =>
        `<meta direction="${direction}"><layer3 protonum="2" protoname="ipv4"><src>${src}</src><dst>${dst}</dst></layer3>` +
        `<layer4 protonum="6" protoname="tcp"><sport>${sport}</sport><dport>${dport}</dport></layer4></meta>`;
      const ways = way("original", "10.0.0.1", "10.0.0.2", 1, 80) + way("reply", "10.0.0.2", "10.0.0.1", 80, 1);
      return `<flow>${ways}<meta direction="independent"><state>${state}</state></meta></flow>\n`;
    };
    for (const write of [line, xml]) {
      const ended = (state: string) =>
        readConntrack([Buffer.from(write(state))], "t").connections.map(({ hasEnded }) => hasEnded);
      assert.deepEqual(
        [ended("TIME_WAIT"), ended("CLOSE"), ended("ESTABLISHED"), ended("CLOSE_WAIT")],
        [[true], [true], [undefined], [undefined]],
      );
    }
  });

  it("LIVE-01: a line that is invalid, has a forged address or port, or is too long is refused with its number", () => {
    const cases: readonly (readonly [string, RegExp])[] = [
      ["hello\n", /^node1.txt:1: expected an entry as conntrack -L prints it$/],
      [`${PLAIN}\n${PLAIN.replace("10.244.0.3", "10.244.0.3.4")}\n`, /^node1.txt:2: /],
      [PLAIN.replace("sport=8080", "sport=80800"), /^node1.txt:1: /],
      [PLAIN.replace("src=10.244.0.3", "src=fd00::1"), /^node1.txt:1: /],
      [PLAIN.replace("src=10.244.0.2 ", "src=\u001b[2J "), /^node1.txt:1: /],
      [XML.replace('protoname="sctp"', ""), /^node1.txt:1: /],
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
