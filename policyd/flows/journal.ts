import * as v from "valibot";
import { DrawbridgeError } from "../../kernel/error.ts";
import { formatCidr, hasHostBits, parseCidr } from "../../kernel/ip/cidr.ts";
import { comparableName } from "../../objects/domain_name.ts";
import { parseJsonLine } from "../lib/json_line.ts";
import { ROW_VERDICTS, type RowEnd, type FlowRow } from "./row.ts";

/** No line of a ledger is longer: a name has at most 253 characters, and reasons are truncated. */
export const LONGEST_LINE = 8192;
/** Maximum characters of a reason. */
export const LONGEST_REASON = 1000;

const LONGEST_NAME = 1024;
const name = v.pipe(v.string(), v.minLength(1), v.maxLength(LONGEST_NAME));
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const moment = v.pipe(v.string(), v.isoTimestamp());
const domainName = v.pipe(
  v.string(),
  v.check((text) => comparableName(text) === text, "a domain name in lower case"),
);
const end = v.union(
  [
    v.strictObject({ workload: name }),
    v.strictObject({ ownNode: v.literal(true) }),
    v.strictObject({ node: name }),
    v.strictObject({ outside: name, name: v.optional(domainName) }),
  ],
  "one of workload, ownNode, node and outside",
);

const rowSchema = v.object({
  from: end,
  to: end,
  protocol: v.pipe(
    v.string(),
    v.regex(/^(?:TCP|UDP|SCTP|ICMP|ICMPv6|protocol \d{1,3})$/, "TCP, UDP, SCTP, ICMP, ICMPv6 or such as protocol 47"),
  ),
  port: v.optional(v.pipe(count, v.minValue(1), v.maxValue(65_535))),
  verdict: v.picklist(ROW_VERDICTS),
  observedAt: v.picklist(["from", "to"]),
  firstSeen: moment,
  lastSeen: moment,
  count,
  open: count,
  bytes: count,
  reason: v.optional(v.pipe(v.string(), v.maxLength(LONGEST_REASON + 1))),
});

/** Returns a row as a line of JSON with its line end, as in the daemon's files and in `node flows -o jsonl`. */
export function rowLine(row: FlowRow): string {
  return `${JSON.stringify(rowObject(row))}\n`;
}

/** Returns the object of {@link rowLine}. */
export function rowObject(row: FlowRow): object {
  const { from, to, protocol, port, verdict, observedAt, firstSeen, lastSeen, count: times, open, bytes, reason } = row;
  const seen = { firstSeen: new Date(firstSeen).toISOString(), lastSeen: new Date(lastSeen).toISOString() };
  return {
    from: endObject(from),
    to: endObject(to),
    protocol,
    port,
    verdict,
    observedAt,
    ...seen,
    count: times,
    open,
    bytes,
    reason,
  };
}

/**
 * Parses a line of {@link rowLine}, with or without its line end.
 *
 * @throws DrawbridgeError ERR_INPUT with the field and the expected value
 */
export function parseRow(line: string): FlowRow {
  const { from, to, firstSeen, lastSeen, port, reason, ...rest } = parseJsonLine(line, rowSchema, "flow");
  return Object.freeze({
    ...rest,
    from: endFrom(from),
    to: endFrom(to),
    port,
    reason,
    firstSeen: Date.parse(firstSeen),
    lastSeen: Date.parse(lastSeen),
  });
}

function endObject(one: RowEnd): object {
  if (one.type === "own node") return { ownNode: true };
  return one.type === "outside" ? { outside: formatCidr(one.range), name: one.name } : { [one.type]: one.name };
}

function endFrom(value: v.InferOutput<typeof end>): RowEnd {
  if ("workload" in value) return { type: "workload", name: value.workload };
  if ("ownNode" in value) return { type: "own node" };
  if ("node" in value) return { type: "node", name: value.node };
  const range = parseCidr(value.outside, "outside");
  if (hasHostBits(range)) {
    throw new DrawbridgeError("ERR_INPUT", `outside: ${formatCidr(range)} has host bits; expected a network`);
  }
  return { type: "outside", range, ...(value.name === undefined ? {} : { name: value.name }) };
}
