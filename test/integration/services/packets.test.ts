import assert from "node:assert/strict";
import process from "node:process";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { TARGET_PORTS } from "../../support/evaluate/arbitrary_cluster.ts";
import { Statistics } from "../../support/evaluate/features.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import {
  disagreement,
  FURTHER_FEATURES,
  type PacketCase,
  packetCases,
  type PacketRound,
  packetRounds,
  remembering,
} from "../../support/services/packet_cases.ts";
import { type PacketLab, packetLab } from "../../support/services/packet_lab.ts";
import { PacketNode } from "../../support/services/packet_node.ts";

const isFull = process.env["DRAWBRIDGE_FULL"] === "1";
const CLUSTERS = isFull ? 168 : 32;
const PACKETS = 12;
const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? (isFull ? Date.now() % 0x7fff_ffff : 4));

/** The settings of labs that run side by side: they spend most of the time waiting for packets that never come. */
const SETTINGS = [
  { bridgeNetfilter: true, tcpReset: false },
  { bridgeNetfilter: false, tcpReset: false },
  { bridgeNetfilter: true, tcpReset: true },
  { bridgeNetfilter: false, tcpReset: true },
] as const;

/** A client on the node gets a refusal only for its second SYN, a second after the first. */
const TIMEOUT = 2500;
const LONG_TIMEOUT = 8000;
const DROPS = [
  ServiceDropReason.NO_LOCAL,
  ServiceDropReason.SOURCE,
  ServiceDropReason.INVALID,
  ServiceDropReason.LOOPBACK,
];

/** One lab with its node and its prober. */
class Bench {
  readonly #lab: Lab;
  readonly #packets: PacketLab;
  readonly #node: PacketNode;
  readonly #prober: Prober;
  readonly #tcpReset: boolean;
  #rounds: readonly PacketRound[] | undefined;

  constructor(number: number, { bridgeNetfilter, tcpReset }: (typeof SETTINGS)[number]) {
    this.#lab = createLab(`packets-${number}`);
    this.#tcpReset = tcpReset;
    this.#packets = packetLab(this.#lab, bridgeNetfilter);
    this.#node = new PacketNode(this.#packets.nodes.node1.node, this.#packets.attachments, tcpReset);
    this.#prober = new Prober(this.#lab.calls);
    for (const { namespace, addresses } of this.#packets.parties) {
      for (const protocol of ["tcp", "udp", "sctp"] as const) {
        for (const address of Object.values(addresses)) {
          for (const port of TARGET_PORTS) this.#prober.listen(protocol, { namespace, address, port });
        }
      }
    }
  }

  /** Returns the packets of a cluster, and counts them. */
  choose(number: number, statistics: Statistics): readonly PacketCase[] {
    this.#rounds ??= packetRounds(this.#packets, CLUSTERS, PACKETS, seed);
    const round = this.#rounds[number];
    assert.ok(round !== undefined);
    return packetCases(this.#packets, round, { count: PACKETS, tcpReset: this.#tcpReset, statistics });
  }

  /** Loads one cluster after the other, sends packets through it, and returns the disagreements with the evaluator. */
  async run(clusters: readonly (readonly PacketCase[])[]): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const cases of clusters) {
      problems.push(...(await this.#measure(cases)), ...(await this.#measureAgain(cases)));
    }
    return problems;
  }

  async #measure(cases: readonly PacketCase[]): Promise<readonly string[]> {
    const [first] = cases;
    assert.ok(first !== undefined);
    this.#node.load(first.world);
    const before = this.#node.dropped(DROPS);
    const problems = await this.#problemsOf(cases, TIMEOUT);
    const dropped = this.#node.dropped(DROPS) - before;
    const silent = cases.filter(({ verdict }) => verdict.kind === "drop").length;
    const isCounted = silent === 0 ? dropped === 0 : dropped >= silent;
    return isCounted ? problems : [...problems, `${silent} packets to be dropped, and ${dropped} were`];
  }

  /** Connects twice as each client with affinity: the second connection must go where the first went. */
  async #measureAgain(cases: readonly PacketCase[]): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const one of cases) {
      if (one.verdict.kind !== "translate" || one.verdict.affinity.type === "none") continue;
      const [first] = await this.#prober.run([one.flow], { timeoutMilliseconds: TIMEOUT });
      if (first?.reached !== true || first.seenAt === undefined) continue;
      problems.push(...(await this.#problemsOf([remembering(one, first.seenAt)], TIMEOUT)));
    }
    return problems;
  }

  async #problemsOf(cases: readonly PacketCase[], timeoutMilliseconds: number): Promise<readonly string[]> {
    const results = await this.#prober.run(
      cases.map(({ flow }) => flow),
      { timeoutMilliseconds },
    );
    const late: PacketCase[] = [];
    const problems: string[] = [];
    for (const [i, one] of cases.entries()) {
      const result = results[i];
      assert.ok(result !== undefined);
      const found = disagreement(this.#packets, one, result);
      // A busy machine may take longer, or lose a packet: unanswered packets are sent once more.
      if (found?.isLoss === true && timeoutMilliseconds < LONG_TIMEOUT) late.push(one);
      else if (found !== undefined) problems.push(`${textOf(one)}: ${found.problem}`);
    }
    return late.length === 0 ? problems : [...problems, ...(await this.#problemsOf(late, LONG_TIMEOUT))];
  }

  close(): void {
    this.#prober.close();
    this.#node.close();
    this.#lab.destroy();
  }
}

function textOf({ packet, verdict }: PacketCase): string {
  const { entry, protocol, source, destination, destinationPort } = packet;
  return `${verdict.kind} ${entry} ${protocol} ${formatAddress(source)} > ${formatAddress(destination)} ${destinationPort}`;
}

describe(`Services: real packets and the evaluator (seed ${seed})`, function () {
  this.timeout(20 * 60_000);
  const benches: Bench[] = [];

  before(function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    for (const [number, setting] of SETTINGS.entries()) benches.push(new Bench(number, setting));
  });
  after(() => {
    for (const bench of benches) bench.close();
  });

  it(`MODEL-02: ${CLUSTERS * PACKETS} packets in ${CLUSTERS} random clusters have the fates that the evaluator gives`, async () => {
    const statistics = new Statistics();
    const clusters = Array.from(
      { length: CLUSTERS },
      (_, number) => benches[number % benches.length]?.choose(number, statistics) ?? [],
    );
    const problems = await Promise.all(
      benches.map((bench, own) => bench.run(clusters.filter((_, number) => number % benches.length === own))),
    );
    console.log(`      ${statistics.format()}`);
    assert.deepEqual(problems.flat(), []);
    statistics.check(FURTHER_FEATURES);
  });
});
