import { parseAddress } from "../../../kernel/ip/address.ts";
import { enableForwarding, type Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { firstPackets, ip } from "../first_packet.ts";
import { type BenchService, SERVICE_PORT } from "./cluster.ts";

/** The number of endpoints that can answer. */
const ENDPOINTS = 200;

/**
 * A client pod and a server pod, each by a veth pair on a node. The server has the addresses of all endpoints of the
 * Services that are measured, so whatever endpoint is chosen, one socket gets the packet.
 */
export class Wire implements Disposable {
  readonly #client: LabNamespace;
  readonly #server: ProbeSocket;

  constructor(lab: Lab, node: LabNamespace) {
    this.#client = lab.namespace(`${node.name}-client`);
    const server = lab.namespace(`${node.name}-server`);
    enableForwarding(node);
    for (const [pod, name, network] of [
      [this.#client, "client", "10.255.0"],
      [server, "server", "10.255.1"],
    ] as const) {
      const namespace = pod.path.slice(pod.path.lastIndexOf("/") + 1);
      ip(node, `link add ${name} type veth peer name eth0 netns ${namespace}`);
      ip(node, `addr add ${network}.1/30 dev ${name}`);
      ip(node, `link set ${name} up`);
      ip(pod, `addr add ${network}.2/30 dev eth0`);
      ip(pod, `link set eth0 up`);
      ip(pod, `route add default via ${network}.1`);
    }
    ip(node, "route add 10.255.2.0/24 via 10.255.1.2");
    ip(server, "route add local 10.255.2.0/24 dev lo");
    this.#server = ProbeSocket.open(server, 4, SocketType.DATAGRAM);
    this.#server.bind({ address: parseAddress("0.0.0.0"), port: SERVICE_PORT });
  }

  /** Returns a Service like another one, whose endpoints answer here. */
  static served(service: BenchService): BenchService {
    if (service.endpoints.length > ENDPOINTS) throw new RangeError(`${service.endpoints.length} endpoints`);
    return { ...service, endpoints: service.endpoints.map((_, index) => `10.255.2.${index + 1}`) };
  }

  /** Sends first packets of connections, one after the other. @returns the microseconds of each */
  firstPackets({ address }: BenchService, count: number): readonly number[] {
    return firstPackets(this.#client, { address: parseAddress(address), port: SERVICE_PORT }, this.#server, count);
  }

  [Symbol.dispose](): void {
    this.#server.close();
  }
}
