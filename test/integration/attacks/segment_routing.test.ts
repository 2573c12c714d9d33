import assert from "node:assert/strict";
import { addressToBytes, formatAddress } from "../../../kernel/ip/address.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { eventually, soon } from "../../support/guard/guarded_node.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { namedLab, type NamedPods, namedPods } from "../../support/policy/lab/named_lab.ts";
import { NODE_NAMES } from "../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../support/policy/lab/policy_lab.ts";
import { networkPolicy } from "../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";

const PODS: NamedPods = { "x/a": { node: "node1" }, "y/a": { node: "node1" }, "y/b": { node: "node2" } };
const PORT = 9108;
const NO_EGRESS = networkPolicy("x", { podSelector: {}, policyTypes: ["Egress"] });
const NO_INGRESS = networkPolicy("y", { podSelector: {}, policyTypes: ["Ingress"] });
/** The policies for each target. The other node checks by itself what it lets in. */
const POLICIES: Readonly<Record<string, readonly object[]>> = { "y/a": [NO_EGRESS, NO_INGRESS], "y/b": [NO_EGRESS] };
const SETTING = "net/ipv6/conf/cni0/seg6_enabled";
const [LOOSE_SOURCE_ROUTE, END_OF_OPTIONS] = [131, 0];
const SOURCE_ROUTE_SETTING = "net/ipv4/conf/cni0/accept_source_route";
const [IPPROTO_IP, IP_OPTIONS] = [0, 4];

describe("attacks by segment routing and source routes, on nodes that take these from other links", function () {
  this.timeout(300_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("segments", PODS, [80]);
    lab.nodes.router.writeSysctl("net/ipv4/conf/all/accept_source_route", "1");
    for (const name of NODE_NAMES) {
      for (const link of ["all", "default", "uplink"])
        lab.wired(name).node.writeSysctl(`net/ipv6/conf/${link}/seg6_enabled`, "1");
      for (const link of ["all", "default", "uplink"])
        lab.wired(name).node.writeSysctl(`net/ipv4/conf/${link}/accept_source_route`, "1");
    }
  });
  after(() => lab?.close());

  /** Sets the bridge as another program would. The daemon stands still meanwhile, because it would set it back. */
  async function whileSet<T>(setting: string, action: () => Promise<T>): Promise<T> {
    const { process } = lab.daemon("node1");
    await process.pause();
    try {
      lab.wired("node1").node.writeSysctl(setting, "1");
      return await action();
    } finally {
      process.child.kill("SIGCONT");
    }
  }

  /** Sends a datagram to a pod, by its node or directly, and returns whether it arrives in the time of `waits`. */
  async function arrives(target: string, isByNode: boolean, waits: typeof eventually): Promise<boolean> {
    const { namespace } = lab.place("x/a");
    const { addresses } = lab.wired("node1");
    const to = lab.place(target).addresses[6];
    const waypoint = addresses[1];
    assert.ok(waypoint !== undefined);
    const [, gateway = ""] = /via (\S+)/.exec(namespace.exec("ip", ["-6", "route", "show", "default"])) ?? [];
    const route = ["-6", "route", "add", `${formatAddress(to)}/128`];
    const header = ["encap", "seg6", "mode", "inline", "segs", formatAddress(waypoint)];
    if (isByNode) namespace.exec("ip", [...route, ...header, "dev", "eth0", "via", gateway, "onlink"]);
    const link = new FrameSocket(lab.place(target).namespace, "eth0");
    const socket = ProbeSocket.open(namespace, 6, SocketType.DATAGRAM);
    const token = newToken();
    try {
      socket.sendTo(token, { address: to, port: PORT });
      return await waits(() => link.received().some((frame) => carries(frame, token)));
    } finally {
      socket.close();
      link.close();
      if (isByNode) namespace.exec("ip", ["-6", "route", "del", `${formatAddress(to)}/128`]);
    }
  }

  for (const [target, policies] of Object.entries(POLICIES)) {
    it(`GUARD-13: a pod passes no policy by a segment routing header to a pod of ${target === "y/a" ? "its" : "another"} node`, async () => {
      const { node } = lab.wired("node1");
      await lab.apply(namedPods(lab, PODS));
      assert.ok(await arrives(target, false, eventually), "without policies and the header it arrives");
      await lab.apply([...namedPods(lab, PODS), ...policies]);
      assert.ok(!(await arrives(target, false, soon)), "policies deny it");
      assert.ok(
        await whileSet(SETTING, () => arrives(target, true, eventually)),
        "when another program sets the bridge as well, it arrives by the node",
      );
      assert.ok(await eventually(() => node.readSysctl(SETTING) === "0"), "the daemon sets it back");
      assert.ok(!(await arrives(target, true, soon)), "then it does not arrive");
    });
  }

  /** Sends a datagram by a loose source route over the node, and returns whether it arrives in the time of `waits`. */
  async function arrivesBySourceRoute(target: string, waits: typeof eventually): Promise<boolean> {
    const { namespace } = lab.place("x/a");
    const [waypoint] = lab.wired("node1").addresses;
    assert.ok(waypoint !== undefined);
    const link = new FrameSocket(lab.place(target).namespace, "eth0");
    const socket = ProbeSocket.open(namespace, 4, SocketType.DATAGRAM);
    const token = newToken();
    try {
      // The kernel sends to the waypoint, and puts the destination into the option (ip_options_build).
      const option = Uint8Array.of(LOOSE_SOURCE_ROUTE, 7, 4, ...addressToBytes(waypoint), END_OF_OPTIONS);
      check(namespace.calls.setsockopt(socket.fd, IPPROTO_IP, IP_OPTIONS, option), "IP_OPTIONS");
      socket.sendTo(token, { address: lab.place(target).addresses[4], port: PORT });
      return await waits(() => link.received().some((frame) => carries(frame, token)));
    } finally {
      socket.close();
      link.close();
    }
  }

  it("GUARD-13: a pod passes no policy by a source route to a pod of another node", async () => {
    const { node } = lab.wired("node1");
    const objects = [...namedPods(lab, PODS), NO_EGRESS];
    await lab.apply(objects);
    assert.ok(!(await arrives("y/b", false, soon)), "policies deny it");
    assert.equal(node.readSysctl(SOURCE_ROUTE_SETTING), "0");
    assert.ok(
      await whileSet(SOURCE_ROUTE_SETTING, () => arrivesBySourceRoute("y/b", eventually)),
      "when another program sets the bridge, it arrives by the node",
    );
    assert.ok(await eventually(() => node.readSysctl(SOURCE_ROUTE_SETTING) === "0"), "the daemon sets it back");
    assert.ok(!(await arrivesBySourceRoute("y/b", soon)), "then it does not arrive");
  });
});
