import { type ConntrackEntry, ConntrackStatus } from "../../../../kernel/conntrack/entry.ts";
import { type Family, formatAddress } from "../../../../kernel/ip/address.ts";
import { formatTuple } from "../../../../kernel/conntrack/tuple.ts";
import { Errno, errnoText } from "../../../../kernel/syscall/errno.ts";
import { socketText } from "../../../../policyd/services/elements/socket_address.ts";
import { clientKey, type Measured, type Result, type Shot, stickyKey } from "./measured.ts";
import { type NodePlace, NODES, type Place } from "./places.ts";
import type { FailingProbe, Further, Probe, ReachingProbe, Row, Transport } from "./row.ts";
import type { AcceptanceWorld } from "./world.ts";

const TRANSLATED = ConntrackStatus.SOURCE_NAT | ConntrackStatus.DESTINATION_NAT;

/** Compares measurements with rows, one family at a time. */
export class Judge {
  readonly #world: AcceptanceWorld;
  readonly #measured: Measured;
  readonly #family: Family;

  constructor(world: AcceptanceWorld, measured: Measured, family: Family) {
    this.#world = world;
    this.#measured = measured;
    this.#family = family;
  }

  /** Returns the differences from a row, each once; none where everything holds. */
  problems(row: Row): readonly string[] {
    const found = [
      ...(row.probes ?? []).flatMap((probe) => this.#probeProblems(row, probe)),
      ...(row.further ?? []).flatMap((further) => this.#furtherProblems(row, further)),
    ];
    return [...new Set(found)];
  }

  #resultsOf(row: Row, probe?: Probe): readonly Result[] {
    return this.#measured.results.filter(
      ({ shot }) => shot.row === row && shot.family === this.#family && (probe === undefined || shot.probe === probe),
    );
  }

  #probeProblems(row: Row, probe: Probe): readonly string[] {
    const results = this.#resultsOf(row, probe);
    if (results.length === 0) return [`nothing was sent to ${probe.to}`];
    if ("fails" in probe) return results.flatMap((result) => this.#failureProblems(probe, result));
    return [...results.flatMap((result) => this.#reachProblems(probe, result)), ...unmet(probe, results)];
  }

  #reachProblems(probe: ReachingProbe, { shot, reached, seenBy, seenSource, why }: Result): readonly string[] {
    const about = `${clientKey(shot)} to ${probe.to}`;
    const sees = seenBy === undefined ? undefined : probe.reaches[seenBy];
    if (probe.othersIgnored === true && sees === undefined) return [];
    if (!reached) return [`${about}: ${why}`];
    if (sees === undefined) return [`${about}: reached ${seenBy}`];
    const expected = this.#world.addressOf(sees === "sender" ? shot.from : sees, this.#family);
    const seen = seenSource === undefined ? "nobody" : formatAddress(seenSource);
    if (seenSource !== expected)
      return [`${about}: ${seenBy} saw ${seen}; expected ${sees}, ${formatAddress(expected)}`];
    const key = stickyKey(shot);
    const first = key === undefined ? seenBy : this.#measured.firsts.get(key);
    return first === seenBy ? [] : [`${about}: reached ${seenBy}, and ${first} at first`];
  }

  #failureProblems(probe: FailingProbe, { shot, reached, seenBy, why }: Result): readonly string[] {
    const about = `${clientKey(shot)} to ${probe.to}`;
    if (reached || seenBy !== undefined) return [`${about}: reached ${seenBy}`];
    const socket = this.#world.socketOf(probe.to, this.#family);
    const isRefused = this.#measured.refusals.some(
      ({ at, protocol, address, port }) =>
        at === shot.from && protocol === shot.transport && address === socket.address && port === socket.port,
    );
    if (probe.fails === "refused") {
      const isReported = shot.transport === "sctp" || errnosOf(shot).some((errno) => why === errnoText(errno));
      return [
        ...(isRefused ? [] : [`${about}: no ICMP port unreachable`]),
        ...(isReported ? [] : [`${about}: ${why}; expected a refusal`]),
      ];
    }
    const stray = (probe.spares ?? []).filter((place) => this.#measured.strayArrivals.get(place) !== 0);
    const problems = [
      ...(isRefused ? [`${about}: ICMP port unreachable`] : []),
      ...stray.map((place) => `${about}: something came to ${place}`),
    ];
    const flows = NODES.flatMap((node) => this.#flows(node, shot.from, probe.to, shot.transport));
    if (probe.fails === "nobody") {
      const translated = flows.filter(({ status }) => (status & TRANSLATED) !== 0);
      return [...problems, ...translated.map((entry) => `${about}: translated as ${tuplesOf(entry)}`)];
    }
    return [
      ...problems,
      ...(why.startsWith("no answer") || isOwnDrop(shot, why) ? [] : [`${about}: ${why}; expected silence`]),
      ...flows.map((entry) => `${about}: let pass as ${tuplesOf(entry)}`),
    ];
  }

  /** Returns the entries of a node's connection tracking from a place to a destination. */
  #flows(node: NodePlace, from: Place, to: string, transport: Transport): readonly ConntrackEntry[] {
    const source = this.#world.addressOf(from, this.#family);
    const { address, port } = this.#world.socketOf(to, this.#family);
    return this.#measured.tracked[node].filter(
      ({ original }) =>
        original.source === source &&
        original.destination === address &&
        original.destinationPort === port &&
        original.protocol === transport,
    );
  }

  #furtherProblems(row: Row, further: Further): readonly string[] {
    switch (further.type) {
      case "never sent":
        return this.#sentProblems(further.to);
      case "clients differ":
        return this.#differenceProblems(row);
      case "nothing listens":
        return this.#listenerProblems(further);
      case "not in the tables":
      case "no translation":
        return this.#tableProblems(further);
    }
  }

  #sentProblems(to: string): readonly string[] {
    const text = socketText(this.#world.socketOf(to, this.#family));
    if (this.#measured.sent.size === 0) return ["nothing was seen at the uplinks"];
    return this.#measured.sent.has(text) ? [`a packet to ${text} has left a node`] : [];
  }

  #listenerProblems({ on, port }: Extract<Further, { readonly type: "nothing listens" }>): readonly string[] {
    return this.#measured.listening[on].has(port) ? [`a program listens at port ${port} of ${on}`] : [];
  }

  #differenceProblems(row: Row): readonly string[] {
    const groups = Map.groupBy(
      this.#resultsOf(row),
      ({ shot }) => `${row.probes?.indexOf(shot.probe)} ${shot.transport}`,
    );
    const counts = [...groups.values()].map((results) => new Set(results.map(({ seenBy }) => seenBy)).size);
    if (counts.some((count) => count > 1)) return [];
    return ["in each probe and by each protocol all clients reached the same endpoint"];
  }

  #tableProblems(
    further: Extract<Further, { readonly type: "not in the tables" | "no translation" }>,
  ): readonly string[] {
    const isNamed = further.type === "not in the tables";
    const address = isNamed
      ? this.#world.addressOf(further.endpoint, this.#family)
      : this.#world.socketOf(`${further.service}:0`, this.#family).address;
    return NODES.flatMap((node) => {
      const text = this.#measured.tables[node];
      // A pod's share of ports and its verdict do not belong to Services.
      const maps = mapsWith(text, formatAddress(address)).filter(
        (name) => !/^(?:pod_ports|egress|ingress)[46]$/.test(name),
      );
      const isMentioned = isNamed && text.includes(further.service);
      return [
        ...(isMentioned ? [`${node} has a rule or an element for ${further.service}`] : []),
        ...maps.map((map) => `${node}: map ${map} has ${formatAddress(address)}`),
      ];
    });
  }
}

/**
 * Returns the errnos of a sender's socket for a refusal; the node's own rules refuse a datagram's sender before the
 * ICMP message does.
 */
function errnosOf({ from, transport }: Shot): readonly number[] {
  const isOwn = transport === "udp" && (from === "n1" || from === "n2");
  return isOwn ? [Errno.ECONNREFUSED, Errno.EPERM] : [Errno.ECONNREFUSED];
}

/** Whether a node's own socket reports that the node has dropped its packet. */
function isOwnDrop({ from }: Shot, why: string): boolean {
  return (from === "n1" || from === "n2") && why === errnoText(Errno.EPERM);
}

/**
 * Returns the endpoints that a sender has not reached: without affinity each sender has to reach all endpoints of a
 * Service.
 */
function unmet({ reaches, sticky, to }: ReachingProbe, results: readonly Result[]): readonly string[] {
  if (sticky !== undefined) return [];
  const bySender = Map.groupBy(results, ({ shot }) => shot.from);
  return [...bySender].flatMap(([from, own]) => {
    const met = new Set<string | undefined>(own.map(({ seenBy }) => seenBy));
    return Object.keys(reaches)
      .filter((place) => !met.has(place))
      .map((place) => `${from} to ${to}: never reached ${place}`);
  });
}

/** Returns the maps in nft's output of tables that have an address among their elements. */
function mapsWith(text: string, address: string): readonly string[] {
  const pattern = new RegExp(`(?<![\\w.:])${address.replaceAll(".", "\\.")}(?![\\w.:])`);
  return [...text.matchAll(/^\tmap (\S+) \{\n([^]*?)^\t\}/gm)]
    .filter(([, , body = ""]) => pattern.test(body))
    .map(([, name = ""]) => name);
}

function tuplesOf({ original, reply }: ConntrackEntry): string {
  return `${formatTuple(original)}, answers ${formatTuple(reply)}`;
}
