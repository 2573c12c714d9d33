import type { LabNamespace } from "../../lab/namespace.ts";
import type { FailedConnection } from "./steady_load.ts";

/** Matches counters of resets, refusals and full queues. */
const COUNTERS = /^(OutRsts|EstabResets|AttemptFails|Listen\w+|TCPReqQ\w+|TCPAbort\w+|Syncookies\w+)$/;

/** Evidence about a period in which connections failed. */
export interface Evidence {
  /** The node that translates, and the other namespaces that may have reset a connection. */
  readonly node: LabNamespace;
  readonly others: readonly LabNamespace[];
  /** Events that connections must not notice, each with its time in milliseconds since the epoch and its name. */
  readonly events: readonly (readonly [number, string])[];
}

/** Makes a node remember the flows that were reset for longer than a test takes. */
export function keepResetFlows(node: LabNamespace): void {
  node.writeSysctl("net/netfilter/nf_conntrack_tcp_timeout_close", "600");
}

/**
 * Describes some failed connections, a line each: the last event before each began and before it failed, and the node's
 * flow, which names the endpoint; then the counters of all namespaces.
 */
export function evidenceText(failed: readonly FailedConnection[], { node, others, events }: Evidence): string {
  const ports = failed.map(({ localPort }) => localPort).join("|");
  const flows = node.exec("sed", ["-nE", `/sport=(${ports}) /p`, "/proc/net/nf_conntrack"]).split("\n");
  const lastBefore = (time: number): string => {
    const [at, name] = events.findLast(([when]) => when <= time) ?? [];
    return at === undefined ? "before every event" : `${time - at} ms after ${name}`;
  };
  const lines = failed.map(({ host, port, localPort, error, beganAt, failedAt }) => {
    const flow = flows.find(
      (line) =>
        line
          .match(/sport=(\d+) dport=(\d+)/)
          ?.slice(1)
          .join() === `${localPort},${port}`,
    );
    const times = `began ${lastBefore(beganAt)}, failed ${failedAt - beganAt} ms later, ${lastBefore(failedAt)}`;
    return `${localPort} to ${host} ${port}: ${error}; ${times}; ${flow?.replaceAll(/ +/g, " ") ?? "no flow"}`;
  });
  return [...lines, ...[node, ...others].map((one) => `${one.name}: ${countersOf(one)}`)].join("\n");
}

/** Returns the counters of {@link COUNTERS} that are not zero. */
function countersOf(namespace: LabNamespace): string {
  const rows = namespace.exec("cat", ["/proc/net/snmp", "/proc/net/netstat"]).split("\n");
  const counted = rows.flatMap((names, row) => {
    const values = (rows[row + 1] ?? "").split(" ");
    if (!/^Tcp(Ext)?: [A-Z]/.test(names)) return [];
    return names
      .split(" ")
      .flatMap((name, column) => (COUNTERS.test(name) && values[column] !== "0" ? [`${name} ${values[column]}`] : []));
  });
  return counted.join(", ") || "nothing";
}
