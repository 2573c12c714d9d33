import { Buffer } from "node:buffer";
import { counted } from "../../output/text.ts";
import type { FlowRow } from "../../../policyd/flows/row.ts";
import { shortList } from "../../../objects/printable.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { mergedRows } from "../../flows/merge.ts";
import { readFlowFile } from "../../flows/read_file.ts";
import { askDaemons, type AwayNode, type KubectlAccess, tellAway } from "../../input/programs/daemons.ts";
import type { Programs } from "../../input/programs/programs.ts";
import type { Io } from "../../io.ts";
import { type Connection, connectionKey } from "./connection.ts";
import { type ReadConnections, readConntrack } from "./conntrack_text.ts";
import { ledgerConnections, type LostFlow } from "./ledger_connections.ts";

/** The sources of connections. */
export interface TablePlaces {
  /** Whether to read the tables of the running cluster's nodes. */
  readonly isLive: boolean;
  /** Files with the output of conntrack. */
  readonly files?: readonly string[];
  /** Files with flows, as `drawbridge flows -o jsonl` prints them. */
  readonly ledgers: readonly string[];
  readonly access: KubectlAccess;
}

/** Connections of tables and ledgers, each once. */
export interface SeenConnections extends ReadConnections {
  /** Flows of ledgers that policies denied. */
  readonly denied: readonly Connection[];
  readonly lost: readonly LostFlow[];
  /** Sentences about what was read, and what was not. */
  readonly remarks: readonly string[];
  /** Whether nodes were not asked; they are named on stderr. */
  readonly isPartial: boolean;
}

const QUESTION = {
  option: "--live",
  args: ["node", "connections"],
  expected: "one table",
  otherwise: "give the flows of a ledger with --ledger",
};

/** The most names of one kind; further ones are counted. */
const MOST_NAMES = 5;

/**
 * Reads tables of connections and ledgers of flows.
 *
 * @param index the cluster in which the ends of flows are looked up by their names
 * @param after the same after a change
 * @throws DrawbridgeError ERR_INPUT as {@link readConntrack}, {@link readFlowFile} and {@link liveTables}
 */
export async function readTables(
  io: Io,
  { isLive, files = [], ledgers, access }: TablePlaces,
  index: PolicyIndex,
  after: PolicyIndex = index,
): Promise<SeenConnections> {
  const rows = mergedRows(ledgers.flatMap((file) => readFlowFile(io.files.read(file), file)));
  const { gone, denied, lost, ...ofLedgers } = ledgerConnections(index, rows, after);
  const live = isLive ? await liveTables(io.programs, access) : { tables: [], away: [] };
  tellAway(io, live.away);
  const tables = [...files.map((file) => readConntrack(io.files.read(file), file)), ...live.tables];
  const found = [...tables.flatMap(({ connections }) => connections), ...ofLedgers.connections];
  const connections = new Map(found.map((connection) => [connectionKey(connection), connection] as const));
  const ofTables = new Set(tables.flatMap((table) => table.connections.map(connectionKey)));
  return {
    connections: [...connections.values()],
    denied,
    lost,
    others: [...tables, ofLedgers].reduce((sum, { others }) => sum + others, 0),
    remarks: [
      ...(isLive || files.length > 0
        ? [`${counted(ofTables.size, "connection")} of one moment ${ofTables.size === 1 ? "was" : "were"} read`]
        : []),
      ...(ledgers.length > 0 ? [periodText(rows)] : []),
      ...(gone.length > 0
        ? [`flows of ${shortList(gone, MOST_NAMES)} are not judged: no pod or node has this name`]
        : []),
    ],
    isPartial: live.away.length > 0,
  };
}

/**
 * Reads the tables of connections of all nodes.
 *
 * @throws DrawbridgeError ERR_INPUT as {@link askDaemons} and {@link readConntrack}
 */
export async function liveTables(
  programs: Programs,
  access: KubectlAccess,
): Promise<{ readonly tables: readonly ReadConnections[]; readonly away: readonly AwayNode[] }> {
  const { answers, away } = await askDaemons(programs, access, QUESTION);
  return { tables: answers.map(({ node, text }) => readConntrack([Buffer.from(text)], `node ${node}`)), away };
}

const UNITS = [
  [86_400_000, "days"],
  [3_600_000, "hours"],
  [60_000, "minutes"],
] as const;

function periodText(rows: readonly FlowRow[]): string {
  const first = rows.reduce((least, { firstSeen }) => Math.min(least, firstSeen), Infinity);
  const last = rows.reduce((most, { lastSeen }) => Math.max(most, lastSeen), -Infinity);
  if (rows.length === 0) return "no flows were read";
  const [size, unit] = UNITS.find(([one]) => last - first >= 2 * one) ?? [1000, "seconds"];
  const times = [first, last].map((time) => new Date(time).toISOString().slice(0, 16));
  return `${counted(rows.length, "flow")} of ${Math.round((last - first) / size)} ${unit} ${rows.length === 1 ? "was" : "were"} read, from ${times.join(" to ")}`;
}
