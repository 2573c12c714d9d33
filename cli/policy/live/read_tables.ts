import type { Io } from "../../io.ts";
import { connectionKey } from "./connection.ts";
import type { ReadConnections } from "./conntrack_text.ts";
import { readConntrack } from "./conntrack_text.ts";
import type { KubectlAccess } from "./live_tables.ts";
import { liveTables } from "./live_tables.ts";

/** Where tables of connections are. */
export interface TablePlaces {
  /** On the nodes of the running cluster. */
  readonly isLive: boolean;
  readonly files: readonly string[];
  readonly access: KubectlAccess;
}

/**
 * Reads tables of connections, each connection once.
 *
 * @throws DrawbridgeError ERR_INPUT as {@link readConntrack} and {@link liveTables}
 */
export async function readTables(io: Io, { isLive, files, access }: TablePlaces): Promise<ReadConnections> {
  const tables = [
    ...files.map((file) => readConntrack(io.files.read(file), file)),
    ...(isLive ? await liveTables(io.programs, { kubeconfig: access.kubeconfig, context: access.context }) : []),
  ];
  const connections = new Map(
    tables.flatMap((table) => table.connections.map((connection) => [connectionKey(connection), connection] as const)),
  );
  return { connections: [...connections.values()], others: tables.reduce((sum, { others }) => sum + others, 0) };
}
