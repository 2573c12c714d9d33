import { type Address, familyOf, formatAddress } from "../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Protocol, Service } from "../../objects/model.ts";
import { evaluate } from "../../objects/semantics/services/evaluate.ts";
import type { Entry } from "../../objects/semantics/services/packet.ts";
import { type End, hasAddress, type Host, hostName, type HostsEnd, nodeOf } from "../cluster/find_end.ts";
import { UNKNOWN_NODE } from "../cluster/cluster.ts";
import type { ExplainContext } from "../policy/explain/context.ts";
import { derivedAssumptions } from "../policy/explain/assumptions.ts";
import { type ServiceReport, serviceReport } from "../policy/explain/service_report.ts";

/** Where a node sends the packets of a sender, as data; docs/cli.md describes every field. */
export interface ServiceExplanation {
  /** Whether every packet passes or goes to an endpoint ({@link isDelivered}). */
  readonly delivered: boolean;
  /** Empty where the node is not known. */
  readonly node: string;
  readonly packets: readonly PacketReport[];
  readonly remarks: readonly string[];
}

/** Packets with the same result. */
export interface PacketReport {
  readonly from: readonly string[];
  /** Where they enter the node: from one of its processes, from one of its pods, or from elsewhere. */
  readonly entry: Entry;
  readonly protocol: Protocol;
  /** Null for a Service whose address the input does not have. */
  readonly address: string | null;
  readonly port: number;
  readonly report: ServiceReport;
}

export interface PacketQuestion {
  readonly from: HostsEnd;
  readonly to: End;
  readonly port: number | string;
  readonly protocol: Protocol | undefined;
  /** Undefined stands for the sender's node. */
  readonly node: string | undefined;
}

/** Any port does, since clients choose theirs freely. */
const SOURCE_PORT = 40_000;

/**
 * Returns what a node's Services do with a connection's first packet, for each pod and each address of a Service.
 *
 * @throws DrawbridgeError ERR_OBJECT for a port name that the Service does not have, an address in no family of the
 *   sender, and a Service without an address of its own
 */
export function explainService(context: ExplainContext, question: PacketQuestion): ServiceExplanation {
  const { cluster, worlds } = context;
  const { to, from } = question;
  const { port, protocol } = portOf(question);
  const reports = new Map<string, PacketReport>();
  const nodes = new Set<string>();
  for (const source of context.few(
    from.hosts,
    (host) => ({ host }),
    question.node === undefined ? "all" : new Set([question.node]),
  )) {
    const node = question.node ?? nodeOf(source) ?? UNKNOWN_NODE;
    nodes.add(node);
    for (const destination of addressesOf(to)) {
      const sender = context.addressOf(source, familyOf(destination));
      if (sender === undefined) continue;
      const entry = entryOf(source, node);
      const packet = { entry, protocol, source: sender, sourcePort: SOURCE_PORT, destination, destinationPort: port };
      const verdict = evaluate(worlds.of(node), packet);
      const address =
        cluster.placeholderAddresses.ownerOf(destination) === undefined ? formatAddress(destination) : null;
      const report = serviceReport(cluster, { node, verdict }, worlds.objects.derived, true);
      const reported = { from: [], entry, protocol, address, port, report };
      const key = JSON.stringify(reported);
      reports.set(key, { ...reported, from: [...(reports.get(key)?.from ?? []), hostName(source)] });
    }
  }
  const packets = [...reports.values()];
  if (packets.length === 0) throw nothingToSend(from, to);
  const met = [...packets.flatMap(({ report }) => report.frontend?.service ?? []), ...missed(context, to, port)];
  return {
    delivered: packets.every(({ report }) => isDelivered(report)),
    node: nodes.size === 1 ? ([...nodes][0] ?? "") : (question.node ?? ""),
    packets,
    remarks: [...new Set(met)]
      .flatMap((key) => worlds.objects.services.get(key) ?? [])
      .flatMap((service) => derivedAssumptions(context, service)),
  };
}

/** Returns whether a packet passes or goes to an endpoint, whichever it may be, that does not refuse it (SVC-24). */
export function isDelivered({ verdict, candidates }: ServiceReport): boolean {
  return verdict === "pass" || (verdict === "translate" && !candidates.some(({ refused }) => refused));
}

/** Returns the Services that would take the packets but that nodes do not serve whole. */
function missed({ worlds }: ExplainContext, to: End, port: number): readonly string[] {
  const addresses = addressesOf(to);
  return [...worlds.oversized.keys()].filter((key) => {
    const service = worlds.objects.services.get(key);
    const isNodePort = service?.ports.some(({ nodePort }) => nodePort === port) === true;
    return isNodePort || addresses.some((address) => hasAddress(service, address));
  });
}

function entryOf(source: Host, node: string): Entry {
  // A pod for which the files name no node counts as on the node in question.
  if (source.type === "outside" || (nodeOf(source) ?? node) !== node) return "outside";
  return source.type === "pod" && !source.pod.hostNetwork ? "pod" : "node";
}

function addressesOf(to: End): readonly Address[] {
  if (to.type === "service") return to.address === undefined ? to.service.clusterIps : [to.address];
  return to.address === undefined ? [] : [to.address];
}

function portOf({ to, port, protocol }: PacketQuestion): { readonly port: number; readonly protocol: Protocol } {
  if (typeof port === "number") return { port, protocol: protocol ?? "TCP" };
  const ports: Service["ports"] = to.type === "service" ? to.service.ports : [];
  const found = ports.find(({ name }) => name === port);
  if (found !== undefined) return found;
  const names = ports.map(({ name }) => name).filter((name) => name !== "");
  const expected = names.length === 0 ? "a number: its ports have no names" : names.join(" or ");
  throw new DrawbridgeError("ERR_OBJECT", `${to.name}: port ${JSON.stringify(port)}; expected ${expected}`);
}

function nothingToSend(from: HostsEnd, to: End): DrawbridgeError {
  const isNameless = to.type === "service" && (to.service.isHeadless || to.service.type === "ExternalName");
  const reason = isNameless
    ? "has no address of its own: its name leads to others; ask about one of those"
    : `and ${from.name} have no addresses of one family; ask about another address`;
  return new DrawbridgeError("ERR_OBJECT", `${to.name} ${reason}`);
}
