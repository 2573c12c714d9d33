import { FAMILIES, addressFromBytes } from "../../../../kernel/ip/address.ts";
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { openConntrackSocket } from "../../../../kernel/conntrack/table.ts";
import { listEntries } from "../../list_entries.ts";
import { ServiceDropReason } from "../../../../policyd/services/rules/check_part.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import type { AcceptanceLab } from "./acceptance_lab.ts";
import { type Measured, type Shot, stickyKey } from "./measured.ts";
import { type NodePlace, NODES, type Place } from "./places.ts";
import { type Probe, protocolsOf, type Row } from "./row.ts";
import { shoot } from "./shoot.ts";
import { UnreachableMessages } from "./unreachable_messages.ts";
import { socketText } from "../../../../policyd/services/elements/socket_address.ts";
import { EtherType } from "../../../lab/probe/frame.ts";
import { FrameSocket } from "../../../lab/probe/frame_socket.ts";
import { until } from "../../until.ts";

const ETHERNET_HEADER = 14;
const IPV6_HEADER = 40;
const WITH_PORTS = new Set([6, 17, 132]);

/** The destinations of the packets that nodes send out, seen at the other ends of their uplinks. */
class SentPackets implements Disposable {
  readonly #sockets: readonly FrameSocket[];
  readonly #destinations = new Set<string>();

  constructor(router: LabNamespace, links: readonly string[]) {
    this.#sockets = links.map((link) => new FrameSocket(router, link));
  }

  /** Reads what has arrived; to be called before the sockets' buffers are full. */
  collect(): void {
    for (const socket of this.#sockets) {
      for (const frame of socket.received()) {
        const destination = readDestination(frame);
        if (destination !== undefined) this.#destinations.add(destination);
      }
    }
  }

  /** Addresses and ports in the form of {@link socketText}. */
  get destinations(): ReadonlySet<string> {
    return this.#destinations;
  }

  [Symbol.dispose](): void {
    for (const socket of this.#sockets) socket.close();
  }
}

/** Returns the destination of a frame; undefined for a frame without ports. */
function readDestination(frame: Uint8Array): string | undefined {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength);
  const type = frame.length > ETHERNET_HEADER ? view.getUint16(12) : 0;
  const packet = frame.subarray(ETHERNET_HEADER);
  const isV4 = type === EtherType.IPV4;
  if (!isV4 && type !== EtherType.IPV6) return undefined;
  const headerLength = isV4 ? ((packet[0] ?? 0) & 0x0f) * 4 : IPV6_HEADER;
  const protocol = packet[isV4 ? 9 : 6] ?? 0;
  if (!WITH_PORTS.has(protocol) || packet.length < headerLength + 4) return undefined;
  const address = addressFromBytes(isV4 ? packet.slice(16, 20) : packet.slice(24, 40));
  return socketText({ address, port: view.getUint16(ETHERNET_HEADER + headerLength + 2) });
}

const COUNTING = `table inet arrivals {
  chain arrivals {
    type filter hook prerouting priority -400; policy accept;
    tcp flags & (syn | ack) == syn counter
    meta l4proto { udp, sctp } counter
  }
}`;

/**
 * Makes the namespace of an endpoint count the packets that arrive: first packets of TCP connections, packets of UDP
 * and SCTP.
 */
function countArrivals(namespace: LabNamespace): void {
  namespace.exec("nft", ["-f", "-"], COUNTING);
}

/** Returns the number of packets so far. */
function arrivals(namespace: LabNamespace): number {
  const text = namespace.exec("nft", ["list", "table", "inet", "arrivals"]);
  return [...text.matchAll(/counter packets (\d+)/g)].reduce((sum, [, packets]) => sum + Number(packets), 0);
}

const ENDPOINTS: readonly Place[] = ["np-1", "np-2", "vote-1", "vote-2", "far"];
/** The short wait for packets that must not arrive; counters and connection tracking prove it. */
const SILENCE_MILLISECONDS = 700;
const COLLECT_MILLISECONDS = 20;

/** Sends the packets of the rows, as many as possible at once, and reads the kernel's state of them. */
export async function measure(lab: AcceptanceLab, rows: readonly Row[]): Promise<Measured> {
  for (const place of ENDPOINTS) countArrivals(lab.namespace(place));
  using messages = new UnreachableMessages(lab.places);
  using sent = new SentPackets(lab.lab.nodes.router, ["to-node1", "to-node2"]);
  const collect = (): void => {
    messages.collect();
    sent.collect();
  };
  const collector = setInterval(collect, COLLECT_MILLISECONDS);
  try {
    const listening = { n1: listeningPorts(lab.namespace("n1")), n2: listeningPorts(lab.namespace("n2")) };
    const all = rows.flatMap(shotsOf);
    const firstShots = oneOfEachClient(all);
    const first = await shoot(lab, firstShots);
    const answered = await shoot(
      lab,
      all.filter(({ probe }) => isAnswered(probe)),
    );
    const silence = await listenToSilence(
      lab,
      all.filter(({ probe }) => !isAnswered(probe)),
    );
    collect();
    return {
      results: [...first, ...answered, ...silence.results],
      firsts: new Map(first.map(({ shot, seenBy }) => [stickyKey(shot) ?? "", seenBy])),
      refusals: messages.refusals,
      tracked: { n1: trackedBy(lab, "n1"), n2: trackedBy(lab, "n2") },
      sent: sent.destinations,
      strayArrivals: silence.strayArrivals,
      drops: silence.drops,
      listening,
      tables: { n1: lab.tables("n1"), n2: lab.tables("n2") },
    };
  } finally {
    clearInterval(collector);
  }
}

function isAnswered(probe: Probe): boolean {
  return !("fails" in probe) || probe.fails === "refused";
}

function shotsOf(row: Row): readonly Shot[] {
  return FAMILIES.flatMap((family) =>
    (row.probes ?? []).flatMap((probe) =>
      probe.from.flatMap((from) =>
        protocolsOf(probe).flatMap((transport) =>
          Array.from({ length: probe.times ?? 1 }, () => ({ row, probe, from, transport, family })),
        ),
      ),
    ),
  );
}

/**
 * Returns one connection of each client of a sticky Service. They go first, since connections that begin at once have
 * no choice to remember yet.
 */
function oneOfEachClient(shots: readonly Shot[]): readonly Shot[] {
  const found = new Map<string, Shot>();
  for (const shot of shots) {
    const key = stickyKey(shot);
    if (key !== undefined && !found.has(key)) found.set(key, shot);
  }
  return [...found.values()];
}

/**
 * Sends what must not arrive, and counts what arrives at endpoints. No other packets are on their way by then, so every
 * arrival is an error.
 */
async function listenToSilence(
  lab: AcceptanceLab,
  shots: readonly Shot[],
): Promise<Pick<Measured, "results" | "strayArrivals" | "drops">> {
  const count = (): ReadonlyMap<Place, number> =>
    new Map(ENDPOINTS.map((place) => [place, arrivals(lab.namespace(place))]));
  let before = count();
  await until(() => {
    const earlier = before;
    before = count();
    return isDeepStrictEqual(earlier, before);
  }, "nothing arrives any more");
  const dropsBefore = dropsOf(lab);
  const results = await shoot(lab, shots, SILENCE_MILLISECONDS);
  return {
    results,
    strayArrivals: difference(before, count()),
    drops: difference(dropsBefore, dropsOf(lab)),
  };
}

function difference<Key>(before: ReadonlyMap<Key, number>, after: ReadonlyMap<Key, number>): ReadonlyMap<Key, number> {
  return new Map([...after].map(([key, count]) => [key, count - (before.get(key) ?? 0)]));
}

/** Returns the packets dropped on both nodes, by the comments of the rules. */
function dropsOf(lab: AcceptanceLab): ReadonlyMap<string, number> {
  const counts = new Map<string, number>(Object.values(ServiceDropReason).map((reason) => [reason, 0]));
  for (const node of NODES) {
    for (const [, packets, reason = ""] of lab
      .tables(node)
      .matchAll(/packets (\d+) bytes \d+ drop comment "([^"]+)"/g)) {
      const count = counts.get(reason);
      if (count !== undefined) counts.set(reason, count + Number(packets));
    }
  }
  return counts;
}

function trackedBy(lab: AcceptanceLab, node: NodePlace): ReturnType<typeof listEntries> {
  const namespace = lab.namespace(node);
  const socket = namespace.inside(() => openConntrackSocket(namespace.calls));
  try {
    return listEntries(socket);
  } finally {
    socket.close();
  }
}

const LISTEN = "0A";

/** Returns the TCP ports at which a program listens, at any address (proc(5), /proc/net/tcp). */
function listeningPorts(namespace: LabNamespace): ReadonlySet<number> {
  const texts = namespace.inside(() =>
    ["tcp", "tcp6"].map((file) => readFileSync(`/proc/thread-self/net/${file}`, "latin1")),
  );
  const rows = texts.flatMap((text) => text.trim().split("\n").slice(1));
  return new Set(
    rows.flatMap((row) => {
      const [, local = "", , state] = row.trim().split(/\s+/);
      return state === LISTEN ? [Number.parseInt(local.slice(local.lastIndexOf(":") + 1), 16)] : [];
    }),
  );
}
