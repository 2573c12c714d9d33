import { parseAddress } from "../../../kernel/ip/address.ts";
import { enableForwarding, type Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { setBridgeNetfilter } from "../../lab/topology.ts";
import { firstPacket, firstPackets, ip } from "../first_packet.ts";
import { type BenchPod, PORT } from "./cluster.ts";

const GATEWAY = "10.128.0.1";
/** The wait for a packet that was dropped, which therefore need not be long. */
const DROP_MILLISECONDS = 50;

/** Two pods on the ports of a node's bridge, whose packets to each other are routed, as the plugin configures it. */
export class Wire implements Disposable {
  readonly node: LabNamespace;
  readonly #client: LabNamespace;
  readonly #server: ProbeSocket;
  readonly #to: Endpoint;

  /** @param node without any links */
  constructor(lab: Lab, node: LabNamespace, client: BenchPod, server: BenchPod) {
    this.node = node;
    this.#to = { address: parseAddress(server.address4), port: PORT };
    enableForwarding(node);
    setBridgeNetfilter(node, false);
    ip(node, "link add drawbridge0 type bridge");
    ip(node, `addr add ${GATEWAY}/9 dev drawbridge0`);
    ip(node, "link set drawbridge0 up");
    node.writeSysctl("net/ipv4/conf/drawbridge0/send_redirects", "0");
    node.writeSysctl("net/ipv4/conf/all/send_redirects", "0");
    const [clientSide, serverSide] = [client, server].map((pod, index) => attach(lab, node, pod, index));
    if (clientSide === undefined || serverSide === undefined) throw new Error("a pod was not attached");
    this.#client = clientSide;
    this.#server = ProbeSocket.open(serverSide, 4, SocketType.DATAGRAM);
    this.#server.bind({ address: parseAddress("0.0.0.0"), port: PORT });
  }

  /** Whether the first packet of a flow arrives. */
  passes(): boolean {
    return firstPacket(this.#client, this.#to, this.#server, DROP_MILLISECONDS) !== undefined;
  }

  /** Sends first packets of flows, one after the other. @returns the microseconds of each */
  firstPackets(count: number): readonly number[] {
    return firstPackets(this.#client, this.#to, this.#server, count);
  }

  [Symbol.dispose](): void {
    this.#server.close();
  }
}

function attach(lab: Lab, node: LabNamespace, pod: BenchPod, index: number): LabNamespace {
  const namespace = lab.namespace(`${node.name}-${index}`);
  const name = namespace.path.slice(namespace.path.lastIndexOf("/") + 1);
  ip(node, `link add port${index} type veth peer name eth0 netns ${name}`);
  ip(node, `link set port${index} master drawbridge0 up`);
  ip(namespace, `addr add ${pod.address4}/32 dev eth0`);
  ip(namespace, "link set eth0 up");
  ip(namespace, `route add default via ${GATEWAY} dev eth0 onlink`);
  return namespace;
}
