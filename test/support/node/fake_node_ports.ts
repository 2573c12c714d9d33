import type { DrawbridgeError } from "../../../kernel/error.ts";
import type { NodePorts } from "../../../policyd/node/masquerade/port_ranges.ts";
import type { NodePortsReader } from "../../../policyd/node/masquerade/taken_ports.ts";

/** Ports that a test sets. */
export class FakeNodePorts implements NodePortsReader {
  ports: NodePorts = { local: { first: 32_768, last: 60_999 }, taken: [] };
  error: DrawbridgeError | undefined;

  read(): NodePorts {
    if (this.error !== undefined) throw this.error;
    return this.ports;
  }
}
