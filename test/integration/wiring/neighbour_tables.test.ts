import assert from "node:assert/strict";
import { parseAddress } from "../../../kernel/ip/address.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { add } from "../../lab/cni.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { suiteLab } from "../../support/suite_lab.ts";

/** The number of destinations: few of the thousand that the machine's table has, so that other tests get theirs. */
const DESTINATIONS = 150;
const PORT = 7002;

describe("the kernel's tables of neighbours, which all network namespaces share", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let pod: LabPod;

  before(function () {
    lab = suiteLab(this, "neighbours");
    wired = twoNodes(lab).node1;
    pod = lab.pod("hostile");
    assert.equal(add(wired, pod).error, undefined);
  });

  const routes = (): readonly string[] => pod.exec("ip", ["-6", "route", "show", "fe80::/64"]).trim().split("\n");

  /** Sends to many link-local addresses. @returns the number of neighbours that the kernel looks for */
  const lookedFor = (prefix: string): number => {
    const socket = ProbeSocket.open(pod, 6, SocketType.DATAGRAM);
    try {
      for (let i = 1; i <= DESTINATIONS; i++) {
        const address = parseAddress(`${prefix}${i.toString(16)}`);
        socket.sendTo(new Uint8Array(1), { address, port: PORT });
      }
      const neighbours = pod.exec("ip", ["-6", "neighbour", "show", "nud", "all"]).split("\n");
      return neighbours.filter((line) => line.startsWith(prefix)).length;
    } finally {
      socket.close();
    }
  };

  it("SHARE-04: a program in a pod that sends to very many link-local addresses makes no neighbour entries", () => {
    const ours = routes().find((line) => line.includes("via")) ?? assert.fail(routes().join());
    pod.exec("ip", ["-6", "route", "del", ...ours.trim().split(/\s+/).slice(0, 7)]);
    assert.ok(lookedFor("fe80::1:") >= 100, "without the route by the gateway");
    pod.exec("ip", [
      "-6",
      "route",
      "add",
      ...ours
        .trim()
        .split(/\s+/)
        .filter((word) => word !== "pref" && word !== "medium"),
    ]);
    assert.equal(lookedFor("fe80::2:"), 0);
  });

  it("SHARE-04: a pod has an IPv4 route to its link only for the gateway, and permanent neighbour entries in both families", () => {
    assert.match(pod.exec("ip", ["-4", "route", "show", "scope", "link"]), /^10\.244\.1\.1 dev eth0 .*\n?$/);
    for (const family of ["-4", "-6"]) {
      const entries = pod.exec("ip", [family, "neighbour", "show", "nud", "permanent"]);
      assert.match(entries, /lladdr .* PERMANENT/);
    }
  });

  it("SHARE-04: a pod reaches the link-local address of the node's bridge", () => {
    const [, address] =
      /inet6 (fe80:[0-9a-f:]+)\/64/.exec(wired.node.exec("ip", ["-6", "addr", "show", "dev", "cni0"])) ?? [];
    assert.ok(address !== undefined);
    const server = ProbeSocket.open(wired.node, 6, SocketType.DATAGRAM);
    const client = ProbeSocket.open(pod, 6, SocketType.DATAGRAM);
    try {
      assert.equal(server.bindOwn(6, PORT), 0);
      client.sendTo(new TextEncoder().encode("hello"), { address: parseAddress(address), port: PORT });
      const heard = [...server.drain()].filter(({ kind }) => kind === "data");
      assert.equal(heard.length, 1);
    } finally {
      server.close();
      client.close();
    }
  });
});
