import assert from "node:assert/strict";
import { dumpLinks, parseLink } from "../../kernel/route/link.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import { tunnelPortOf } from "../../kernel/route/tunnel_port.ts";
import { createLab } from "../lab/lab.ts";
import { requireKernel } from "../support/privilege.ts";

describe("ports of tunnels in the kernel", () => {
  before(function () {
    requireKernel(this);
  });

  it("GUARD-17: the port of a VXLAN link is read, and other links have none", () => {
    using lab = createLab("tunnel-port");
    const node = lab.namespace("node");
    node.exec("ip", ["link", "add", "vx", "type", "vxlan", "id", "1", "dstport", "6784"]);
    node.exec("ip", ["link", "add", "br0", "type", "bridge"]);
    const socket = node.inside(() => openRouteSocket(lab.calls));
    const ports = socket.dump(dumpLinks()).flatMap((message) => {
      const port = tunnelPortOf(message);
      return port === undefined ? [] : [[parseLink(message).name, port] as const];
    });
    socket.close();
    assert.deepEqual(Object.fromEntries(ports), { vx: 6784 });
  });
});
