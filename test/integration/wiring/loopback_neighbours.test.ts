import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { twoNodes, UPLINK, type WiredNode } from "../../lab/topology.ts";
import { addressesOf } from "../../support/host_ports/localhost_node.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";

const LOCALHOST = parseAddress("127.0.0.1");
const [PORT, PUBLISHED, SECRET, REDIRECTED] = [7000, 7100, 7101, 7102];

describe("another program's translations of the node's localhost, beside Services", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let router: LabNamespace;
  let policyd: PolicydNode;
  let prober: Prober;
  let pod: LabNamespace;
  let podAddress: Address;

  before(async function () {
    lab = suiteLab(this, "loopback-others");
    ({ node1: wired, router } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
    prober = new Prober(lab);
    await policyd.start();
    const attached = lab.pod("published");
    assert.equal(add(wired, attached, policyd.overrides).error, undefined);
    pod = attached;
    [podAddress] = addressesOf(attached);
    for (const device of ["all", "cni0", UPLINK]) wired.node.writeSysctl(`net/ipv4/conf/${device}/route_localnet`, "1");
    const to = `${formatAddress(podAddress)}:${PORT}`;
    // portmap and Docker publish ports on localhost like this, and people redirect a port to a program on localhost.
    const rules = `table ip others {
      chain output { type nat hook output priority -100; ip daddr 127.0.0.1 udp dport ${PUBLISHED} dnat to ${to}; }
      chain postrouting { type nat hook postrouting priority 100; ip saddr 127.0.0.0/8 oifname "cni0" masquerade; }
      chain prerouting {
        type nat hook prerouting priority -101;
        ip daddr 127.0.0.1 udp dport ${SECRET} dnat to ${to};
        udp dport ${REDIRECTED} dnat to 127.0.0.1:${REDIRECTED};
      }
    }`;
    wired.node.exec("nft", ["-f", "-"], rules);
  });

  it("NODE-05: a client on localhost gets the answer of a pod whose port another program publishes there", async () => {
    prober.listen("udp", { namespace: pod, address: podAddress, port: PORT });
    const to = { address: LOCALHOST, port: PUBLISHED };
    const [result] = await prober.run([{ protocol: "udp", from: wired.node, to }]);
    assert.equal(result?.reached, true, result?.why);
  });

  it("NODE-05: a packet from outside that another program redirects to localhost arrives there", async () => {
    prober.listen("udp", { namespace: wired.node, address: LOCALHOST, port: REDIRECTED });
    const to = { address: wired.addresses[0], port: REDIRECTED };
    const [result] = await prober.run([{ protocol: "udp", from: router, to }]);
    assert.equal(result?.reached, true, result?.why);
  });

  it("NODE-05: a neighbour's packet to localhost is dropped, also where another program translates it first", async () => {
    const socket = ProbeSocket.open(pod, 4, SocketType.DATAGRAM);
    socket.bind({ address: podAddress, port: PORT + 1 });
    wired.node.exec("nft", [
      `insert rule ip others prerouting udp dport { ${SECRET + 1}, ${SECRET + 2} } dnat to ${formatAddress(podAddress)}:${PORT + 1}`,
    ]);
    using _link = { [Symbol.dispose]: () => socket.close() };
    const link = new FrameSocket(router, `to-${wired.node.name}`);
    const from = router.link(`to-${wired.node.name}`).mac ?? assert.fail("no MAC address");
    const to = wired.node.link(UPLINK).mac ?? assert.fail("no MAC address");
    const send = (destination: Address, port: number, text: string): void => {
      const udp = encodeUdp(wired.routerAddresses[0], destination, port, Buffer.from(text));
      link.send(encodeFrame({ from, to, ...encodeIp(udp) }));
    };
    send(LOCALHOST, SECRET + 1, "to localhost");
    send(wired.addresses[0], SECRET + 2, "to the node");
    const heard: string[] = [];
    for (let left = 1500; left > 0 && !heard.includes("to the node"); left--) {
      for (const next of socket.drain()) if (next.kind === "data") heard.push(Buffer.from(next.data).toString());
      await pause(20);
    }
    link.close();
    assert.deepEqual(heard, ["to the node"]);
  });
});
