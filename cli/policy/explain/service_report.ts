import { formatAddress } from "../../../kernel/ip/address.ts";
import type { SocketAddress } from "../../../objects/semantics/services/packet.ts";
import {
  dropText,
  hintText,
  masqueradeText,
  missText,
  rejectText,
  routeText,
  takenText,
} from "../../../objects/semantics/services/reason_text.ts";
import type {
  EndpointReport,
  Frontend,
  Masquerade,
  Translate,
  Verdict,
} from "../../../objects/semantics/services/verdict.ts";
import { type Cluster, ownerOf } from "../../cluster/cluster.ts";
import type { Derived } from "../../cluster/service_objects.ts";

/** The verdict of Services on a packet, as data: addresses are text, and null where files do not have them. */
export interface ServiceReport {
  /** The nodes with this result; empty where no node is known. */
  readonly nodes: readonly string[];
  readonly verdict: "pass" | "drop" | "reject" | "translate";
  /** Why the packet ends here or passes, and which endpoints it may go to. */
  readonly because: readonly string[];
  readonly frontend: FrontendReport | null;
  readonly candidates: readonly CandidateReport[];
  readonly omitted: readonly OmittedReport[];
  /** Where the files have no EndpointSlices: the selector by which the endpoints were found. */
  readonly derivedFrom: string | null;
}

export interface FrontendReport {
  readonly type: Frontend["type"];
  readonly service: string;
  readonly portName: string;
  readonly protocol: string;
  readonly address: string | null;
  readonly port: number;
}

/** A place that a packet may go to: `host` is `NS/POD`, `node/NAME` or an address. */
export interface PlaceReport {
  readonly host: string;
  readonly address: string | null;
  readonly port: number;
}

export interface CandidateReport extends PlaceReport {
  readonly because: string;
  /** The source address that the endpoint sees, and why; absent where the cases of an explanation say it. */
  readonly source?: SourceReport;
  /** The endpoint is itself a cluster IP, and refuses packets that come by another Service. */
  readonly refused: boolean;
}

/** Whether a packet keeps its source address or gets its node's. */
export interface SourceReport {
  readonly masqueraded: boolean;
  readonly because: string;
}

export interface OmittedReport extends PlaceReport {
  readonly because: string;
}

/** A verdict and the node that gives it. */
export interface NodeVerdict {
  readonly node: string;
  readonly verdict: Verdict;
}

/**
 * Returns a verdict as data.
 *
 * @param derived the Services whose endpoints come from their selectors
 * @param isOfOneSource whether to include the packet's source address
 */
export function serviceReport(
  cluster: Cluster,
  { node, verdict }: NodeVerdict,
  derived: ReadonlyMap<string, Derived>,
  isOfOneSource: boolean,
): ServiceReport {
  const frontend = verdict.kind === "pass" ? undefined : verdict.frontend;
  const endpoints = verdict.kind === "pass" ? undefined : verdict.endpoints;
  const candidates = verdict.kind === "translate" ? verdict.candidates : [];
  const selector = frontend === undefined ? undefined : derived.get(frontend.service)?.selector;
  return {
    nodes: node === "" ? [] : [node],
    verdict: verdict.kind,
    because: [...becauseOf(verdict), ...(selector === undefined ? ignoredLines(endpoints) : [])],
    frontend: frontend === undefined ? null : frontendReport(cluster, frontend),
    candidates: candidates.map((candidate) => ({
      ...placeReport(cluster, candidate.destination),
      because: candidate.because.map(takenText).join(", "),
      ...(isOfOneSource ? { source: sourceReport(candidate.masquerade) } : {}),
      refused: candidate.isRejected,
    })),
    omitted: (endpoints?.omitted ?? []).map(({ endpoint, slice, because }) => ({
      ...placeReport(cluster, endpoint),
      because: selector === undefined ? `${because} (EndpointSlice ${slice})` : because,
    })),
    derivedFrom: selector ?? null,
  };
}

export function sourceReport(masquerade: Masquerade): SourceReport {
  return { masqueraded: masquerade.masqueraded, because: masqueradeText(masquerade) };
}

/** Returns an address and a port as text, IPv6 in brackets. */
export function socketText(address: string, port: number): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

function becauseOf(verdict: Verdict): readonly string[] {
  switch (verdict.kind) {
    case "pass":
      return ["no Service has this address and port", ...verdict.nearMisses.map(missText)];
    case "drop":
      return [dropText(verdict)];
    case "reject":
      return [`${rejectText(verdict)} (${verdict.reply})`];
    case "translate":
      return translateLines(verdict);
  }
}

function translateLines({ sourceRanges, route, affinity, endpoints }: Translate): readonly string[] {
  return [
    ...(sourceRanges === "within" ? ["the source is within loadBalancerSourceRanges"] : []),
    routeText(route),
    // Most Services have no hints, which need no line.
    ...(endpoints.hints.type === "unused" ? [] : [hintText(endpoints.hints, route)]),
    ...(affinity.type === "none"
      ? []
      : [`session affinity for ${affinity.timeoutSeconds} s: a client stays with its endpoint`]),
  ];
}

/** Returns a line for each ignored slice, except those of the other family, which every dual-stack Service has. */
function ignoredLines(endpoints: EndpointReport | undefined): readonly string[] {
  const reported = (endpoints?.ignoredSlices ?? []).filter(({ because }) => because !== "other family");
  return reported.map(({ slice, because }) => `EndpointSlice ${slice} does not count: ${because}`);
}

function frontendReport({ placeholderAddresses }: Cluster, { address, ...rest }: Frontend): FrontendReport {
  return { ...rest, address: placeholderAddresses.ownerOf(address) === undefined ? formatAddress(address) : null };
}

function placeReport(cluster: Cluster, { address, port }: SocketAddress): PlaceReport {
  const owner = ownerOf(cluster, address);
  const text = cluster.placeholderAddresses.ownerOf(address) === undefined ? formatAddress(address) : null;
  const host = owner?.type === "node" ? `node/${owner.key}` : (owner?.key ?? formatAddress(address));
  return { host, address: text, port };
}
