import { printable } from "../../../objects/printable.ts";
import { foldLine } from "../../output/fold.ts";
import type { Style } from "../../io.ts";
import {
  type CandidateReport,
  type OmittedReport,
  type PlaceReport,
  type ServiceReport,
  socketText,
} from "./service_report.ts";

/** Of more endpoints only the first are printed, and how many more there are. */
const MOST_SHOWN = 12;
/** The addresses of a Service, which are not its type: one of type LoadBalancer has a cluster IP, too. */
const ADDRESSES = {
  ClusterIP: "cluster IP",
  externalIP: "external IP",
  LoadBalancer: "load balancer",
  NodePort: "node port",
} as const;

/** Returns the reports in words, each frontend with its endpoints; equal results of both families appear once. */
export function serviceTexts(reports: readonly ServiceReport[], style: Style, columns: number): readonly string[] {
  const groups = [...Map.groupBy(reports, likeness).values()];
  return groups.map((group) => {
    // Nodes are named only where their results differ.
    const name = group[0]?.frontend?.service;
    const isSplit = groups.filter(([other]) => other?.frontend?.service === name).length > 1;
    return groupText(group, isSplit, { style, columns });
  });
}

/** Returns a key that is equal for reports that differ only in the family of their addresses. */
function likeness({ frontend, candidates, omitted, ...rest }: ServiceReport): string {
  const places = [...candidates, ...omitted].map((one) => ({ ...one, address: null }));
  return JSON.stringify([rest, frontend && { ...frontend, address: null }, places]);
}

/** How a report is printed. */
export interface Sheet {
  readonly style: Style;
  readonly columns: number;
}

function groupText(group: readonly ServiceReport[], isSplit: boolean, { style, columns }: Sheet): string {
  const [first] = group;
  if (first === undefined) return "";
  const { verdict, because, candidates, omitted, derivedFrom } = first;
  const shown = candidates.slice(0, MOST_SHOWN);
  const more = candidates.length - shown.length;
  const source = derivedFrom === null ? "" : `, the pods that ${derivedFrom} selects`;
  const goesTo = `goes to ${candidates.length === 1 ? "its only endpoint" : `one of ${candidates.length} endpoints`}${source}:`;
  const candidateLine = (one: CandidateReport, i: number): string =>
    `${placeText(
      one,
      group.flatMap((report) => report.candidates[i] ?? []),
    )}, ${candidateText(one)}`;
  const omittedLine = (one: OmittedReport, i: number): string =>
    `not to ${placeText(
      one,
      group.flatMap((report) => report.omitted[i] ?? []),
    )}: ${one.because}`;
  return [
    foldLine(headText(group, isSplit, style), columns, 0, 2),
    ...because.map((text) => foldLine(`${answerText(verdict, style)}${printable(text)}`, columns, 2, 4)),
    ...(candidates.length === 0 ? [] : [foldLine(goesTo, columns, 2, 4)]),
    ...shown.map((one, i) => foldLine(candidateLine(one, i), columns, 4, 6)),
    ...(more > 0 ? [foldLine(`and ${more} more`, columns, 4)] : []),
    ...omitted.slice(0, MOST_SHOWN).map((one, i) => foldLine(omittedLine(one, i), columns, 2, 4)),
    ...(omitted.length > MOST_SHOWN ? [foldLine(`nor to ${omitted.length - MOST_SHOWN} more`, columns, 2)] : []),
  ].join("");
}

function headText(group: readonly ServiceReport[], isSplit: boolean, style: Style): string {
  const [{ nodes, frontend } = { nodes: [], frontend: null }] = group;
  const where =
    nodes.length === 0 || !isSplit ? "" : `, on ${nodes.length === 1 ? "node" : "nodes"} ${nodes.join(", ")}`;
  if (frontend === null) return `${style.strong("No Service takes it")}${where}`;
  const { type, service, portName, port, protocol } = frontend;
  const addresses = group.flatMap((report) => report.frontend?.address ?? []);
  const sockets = addresses.map((address) => socketText(address, port));
  const name = portName === "" ? "" : ` (${portName})`;
  const place = sockets.length === 0 ? `that is not in the input, port ${port}` : [...new Set(sockets)].join(" and ");
  return `${style.strong(`Service ${service}`)}: ${ADDRESSES[type]} ${place}, ${protocol}${name}${where}`;
}

function answerText(verdict: ServiceReport["verdict"], style: Style): string {
  if (verdict === "drop") return `${style.bad("dropped")}: `;
  if (verdict === "reject") return `${style.bad("refused")}: `;
  return verdict === "pass" ? "passes unchanged: " : "";
}

/** Returns a host with its addresses of both families. */
function placeText({ host, port }: PlaceReport, ofFamilies: readonly PlaceReport[]): string {
  const sockets = ofFamilies.flatMap(({ address }) => (address === null ? [] : socketText(address, port)));
  const place = sockets.length === 0 ? `port ${port}` : [...new Set(sockets)].join(" and ");
  return ofFamilies.some(({ address }) => address === host) ? place : `${host} ${place}`;
}

function candidateText({ because, source, refused }: CandidateReport): string {
  const end = refused ? "; refused there: the endpoint is a cluster IP" : "";
  return `${because}${source === undefined ? "" : `; ${source.because}`}${end}`;
}
