import assert from "node:assert/strict";
import { forgetFlowsTo, staleFlows } from "../../cni/node_rules/stale_flows.ts";
import type { PortMapping } from "../../attachment/attachment.ts";
import { deleteFlowsAtOnce, openConntrackSocket } from "../../kernel/conntrack/table.ts";
import { listEntries } from "../support/list_entries.ts";
import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { type Address, familyOf, formatAddress, parseAddress } from "../../kernel/ip/address.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import { ProbeSocket, SocketType } from "../lab/probe/socket.ts";
import { requireKernel } from "../support/privilege.ts";
import { type TrackedPair, trackedPair } from "./tracked_pair.ts";

const TRACKING = "table inet lab { chain out { type filter hook output priority 0; ct state new accept; }; }";
const FIRST = 7000;
const PORTS = 44;

describe("cni/stale_flows with the kernel", () => {
  let lab: Lab | undefined;
  let pair: TrackedPair;
  let socket: NetlinkSocket;

  beforeEach(function () {
    requireKernel(this);
    lab = createLab("kernel-stale-flows");
    pair = trackedPair(lab, TRACKING);
    socket = pair.near.inside(() => openConntrackSocket(pair.near.calls));
    for (const [index, address] of [...pair.nearAddresses, ...pair.farAddresses].entries()) {
      const client = ProbeSocket.open(pair.near, familyOf(address), SocketType.DATAGRAM);
      client.bind({ address: pair.nearAddresses[index % 2] ?? address, port: 5555 });
      for (let port = FIRST; port < FIRST + PORTS; port++) client.sendTo(new Uint8Array(16), { address, port });
      client.close();
    }
    // The flows go to the node itself and through it, in both families.
    assert.equal(flows().length, 4 * PORTS);
  });
  afterEach(() => {
    socket?.close();
    lab?.destroy();
  });

  /** Returns the destinations of the UDP flows that one port of the node has begun. */
  function flows(from = 5555): readonly string[] {
    const found = listEntries(socket, { protocol: "udp" }).map(({ original }) => original);
    return found
      .filter(({ sourcePort }) => sourcePort === from)
      .map(({ destination, destinationPort }) => `${formatAddress(destination)} ${destinationPort}`)
      .toSorted();
  }

  function forgetStale(mappings: readonly PortMapping[]): void {
    const { near, nearAddresses: addresses } = pair;
    near.inside(() => {
      const { asked, isMeant } = staleFlows(near.calls, { mappings, addresses, serviceCidrs: [] });
      deleteFlowsAtOnce(near.calls, asked, isMeant);
    });
  }

  function udp(count: number, hostIp?: Address): readonly PortMapping[] {
    return Array.from({ length: count }, (_, index) => ({
      hostPort: FIRST + index,
      containerPort: 53,
      protocol: "udp",
      ...(hostIp === undefined ? {} : { hostIp }),
    }));
  }

  // Few filters are listed one by one, and many are searched among all flows.
  for (const count of [1, 3, 40]) {
    for (const isOne of [false, true]) {
      it(`R2: for a new pod with ${count} ports exactly the flows to them at ${isOne ? "one address" : "the node"} are deleted, and for an ended pod only translated flows`, () => {
        const { near, nearAddresses: addresses } = pair;
        const mappings = udp(count, isOne ? addresses[0] : undefined);
        near.inside(() => forgetFlowsTo(near.calls, mappings, addresses));
        const before = flows();
        assert.equal(before.length, 4 * PORTS, "no flow was translated");
        const asked = addresses.slice(0, isOne ? 1 : 2).map(formatAddress);
        const forgotten = new Set(mappings.flatMap(({ hostPort }) => asked.map((address) => `${address} ${hostPort}`)));
        assert.equal(forgotten.size, (isOne ? 1 : 2) * count);
        forgetStale(mappings);
        assert.deepEqual(
          flows(),
          before.filter((flow) => !forgotten.has(flow)),
        );
      });
    }
  }

  it("R2: of translated flows exactly those of UDP to a port of the ended pod are deleted, and a TCP port deletes none", () => {
    const { near, nearAddresses: addresses } = pair;
    const [ended] = addresses;
    // The near end stands for the pod that has ended, and the far one for a pod with the same host port.
    const rules = [
      "10.99.0.70 udp dport { 6000, 6001 } dnat to 10.99.0.1:53",
      "10.99.0.70 udp dport 6002 dnat to 10.99.0.1:54",
      "10.99.0.71 udp dport 6000 dnat to 10.99.0.2:53",
    ].map((rule) => `ip daddr ${rule};`);
    near.exec(
      "nft",
      ["-f", "-"],
      `table ip pods { chain out { type nat hook output priority -100; ${rules.join(" ")} }; }`,
    );
    const client = ProbeSocket.open(near, 4, SocketType.DATAGRAM);
    client.bind({ address: ended, port: 5556 });
    const sent = ["10.99.0.70 6000", "10.99.0.70 6001", "10.99.0.70 6002", "10.99.0.71 6000"];
    for (const [text = "", port] of sent.map((one) => one.split(" ")))
      client.sendTo(new Uint8Array(16), { address: parseAddress(text), port: Number(port) });
    client.close();
    assert.deepEqual(flows(5556), sent);
    const tcp = [6000, FIRST].map((hostPort): PortMapping => ({ hostPort, containerPort: 53, protocol: "tcp" }));
    near.inside(() => forgetFlowsTo(near.calls, tcp, addresses));
    forgetStale(tcp);
    assert.deepEqual([flows(5556), flows().length], [sent, 4 * PORTS], "of a TCP port");
    const mappings = [6000, 6002].map((hostPort): PortMapping => ({ hostPort, containerPort: 53, protocol: "udp" }));
    near.inside(() => forgetFlowsTo(near.calls, mappings, [ended]));
    assert.deepEqual(flows(5556), sent.slice(1));
  });
});
