import { joinedEnd, rowKey } from "../../policyd/flows/flow_end_names.ts";
import type { FlowRow } from "../../policyd/flows/row.ts";

type Counts = Readonly<Record<"count" | "open" | "bytes", number>>;

/**
 * Returns the rows of some nodes' ledgers as one ledger: a row for each pair of ends, protocol, port and verdict.
 *
 * Both nodes of a connection between their pods have a row for it, so the larger of the two numbers counts. A packet
 * that policies drop is in the row of one node only.
 */
export function mergedRows(rows: Iterable<FlowRow>): readonly FlowRow[] {
  const groups = new Map<string, [FlowRow, ...FlowRow[]]>();
  for (const row of rows) {
    const key = rowKey(row);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [row]);
    else group.push(row);
  }
  return [...groups.values()].map(mergedRow);
}

function mergedRow(rows: readonly [FlowRow, ...FlowRow[]]): FlowRow {
  const [first] = rows;
  if (rows.length === 1) return first;
  const newest = rows.reduce((a, b) => (b.lastSeen > a.lastSeen ? b : a));
  const reason = newest.reason ?? rows.find((row) => row.reason !== undefined)?.reason;
  const sides = (["from", "to"] as const).map((side) => sumOf(rows.filter(({ observedAt }) => observedAt === side)));
  const isDropped = first.verdict !== "allowed";
  const both = (of: keyof Counts): number => {
    const [atSource = 0, atServer = 0] = sides.map((sums) => sums[of]);
    return isDropped ? atSource + atServer : Math.max(atSource, atServer);
  };
  return {
    ...newest,
    from: rows.map(({ from }) => from).reduce(joinedEnd),
    to: rows.map(({ to }) => to).reduce(joinedEnd),
    observedAt: rows.some(({ observedAt }) => observedAt === "from") ? "from" : "to",
    firstSeen: Math.min(...rows.map(({ firstSeen }) => firstSeen)),
    count: both("count"),
    open: both("open"),
    bytes: both("bytes"),
    reason,
  };
}

function sumOf(rows: readonly FlowRow[]): Counts {
  const sum = (of: keyof Counts): number => rows.reduce((total, row) => total + row[of], 0);
  return { count: sum("count"), open: sum("open"), bytes: sum("bytes") };
}
