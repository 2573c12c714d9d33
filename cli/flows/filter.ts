import { type Cidr, doOverlap, hostCidr, parseCidr } from "../../kernel/ip/cidr.ts";
import { tryParseAddress } from "../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { matchesDomain } from "../../objects/domain_name.ts";
import { type RowEnd, type FlowRow, OWN_NODE } from "../../policyd/flows/row.ts";

/** Chooses flows: a row has to match every field that is given. */
export interface FlowFilter {
  readonly from?: EndFilter | undefined;
  readonly to?: EndFilter | undefined;
  /** Whether to choose only what policies drop, or would drop. */
  readonly isDenied?: boolean;
  /** Chooses what is open, or was seen at this time or later, in milliseconds since 1970. */
  readonly since?: number | undefined;
}

/** Tells whether an end is one that a text of the command line stands for. */
export type EndFilter = (end: RowEnd) => boolean;

/** Returns whether a filter chooses a row. */
export function isWanted({ from, to, isDenied = false, since }: FlowFilter, row: FlowRow): boolean {
  if (isDenied && row.verdict === "allowed") return false;
  if (since !== undefined && row.lastSeen < since && row.open === 0) return false;
  return (from?.(row.from) ?? true) && (to?.(row.to) ?? true);
}

/**
 * Returns the test for the ends that a text stands for: `shop` is a namespace, `shop/web` a workload or a pod,
 * `shop/deployment/web` a workload, `own-node` the node of the other end, `node/n1` another node, an address or a
 * prefix the ends outside whose range overlaps it, and a domain name or `*.example.com` those that pods know by it.
 */
export function endFilter(text: string): EndFilter {
  const range = rangeOf(text);
  if (range !== undefined) return (end) => end.type === "outside" && doOverlap(range, end.range);
  const [first = "", ...rest] = text.split("/");
  const isNode = first === "node" && rest.length === 1;
  return (end) => {
    if (end.type === "outside") return end.name !== undefined && matchesDomain(text, end.name);
    if (end.type === "own node") return text === OWN_NODE;
    if (end.type === "node") return isNode && end.name === rest[0];
    const [namespace, ...words] = end.name.split("/");
    return (
      namespace === first && (rest.length === 0 || end.name === text || (rest.length === 1 && words.at(-1) === rest[0]))
    );
  };
}

function rangeOf(text: string): Cidr | undefined {
  const address = tryParseAddress(text);
  if (address !== undefined) return hostCidr(address);
  // A text with an address before its slash is meant as a prefix, and may be a wrong one.
  return tryParseAddress(text.split("/", 1)[0] ?? "") === undefined ? undefined : parseCidr(text);
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Returns the moment that a text names: a time before now such as `90m`, `24h` or `7d`, or a date or time of ISO 8601.
 *
 * @returns milliseconds since 1970
 * @throws DrawbridgeError ERR_INPUT for any other text
 */
export function momentOf(text: string, now: number): number {
  const [, number, unit = ""] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  if (number !== undefined) return now - Number(number) * (UNITS[unit] ?? 0);
  const moment = /^\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?$/.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(moment)) return moment;
  throw new DrawbridgeError(
    "ERR_INPUT",
    `--since: ${JSON.stringify(text)}; expected a time before now such as 90m, 24h or 7d, or a date such as 2026-11-30T12:00:00Z`,
  );
}
