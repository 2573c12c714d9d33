import assert from "node:assert/strict";
import type { Address } from "../../../../kernel/ip/address.ts";
import { add } from "../../../lab/cni.ts";
import type { Lab, LabPod } from "../../../lab/lab.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { Prober } from "../../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../../lab/topology.ts";
import { addressesOf } from "../../../support/host_ports/localhost_node.ts";
import { PolicydNode } from "../../../support/daemon/policyd_node.ts";
import { suiteLab } from "../../../support/suite_lab.ts";
import { until } from "../../../support/until.ts";
import { configured } from "../../../support/daemon/policyd.ts";

const LIMIT = 300;
const PORT = 7000;

describe("connections beyond a pod's limit", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let router: LabNamespace;
  let policyd: PolicydNode;
  let prober: Prober;

  before(async function () {
    lab = suiteLab(this, "connection-limit");
    ({ node1: wired, router } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
    await policyd.start([configured(lab.scratch, { connectionLimit: LIMIT })]);
    prober = new Prober(lab);
    for (const address of wired.routerAddresses) {
      for (const protocol of ["tcp", "udp"] as const) {
        prober.listen(protocol, { namespace: router, address, port: PORT });
      }
    }
  });

  function attach(name: string): LabPod {
    const pod = lab.pod(name);
    assert.equal(add(wired, pod, policyd.overrides).error, undefined);
    return pod;
  }

  /** Returns how many new connections to an accomplice are answered, within a short time where few should be. */
  async function answered(
    from: LabPod,
    address: Address,
    count: number,
    protocol: "tcp" | "udp" = "udp",
    timeoutMilliseconds = 20_000,
  ): Promise<number> {
    const flows = Array.from({ length: count }, () => ({ protocol, from, to: { address, port: PORT } }));
    return (await prober.run(flows, { timeoutMilliseconds })).filter(({ reached }) => reached).length;
  }

  const connections = (): number => Number(wired.node.readSysctl("net/netfilter/nf_conntrack_count"));

  for (const [index, family] of ["IPv4", "IPv6"].entries()) {
    it(`GUARD-08: a pod over its limit, with an accomplice outside that answers, keeps no other pod from connecting, ${family}`, async () => {
      const [hostile, other] = [attach(`hostile${index}`), attach(`other${index}`)];
      const accomplice = wired.routerAddresses[index] ?? assert.fail(family);
      assert.equal(await answered(hostile, accomplice, 100), 100, "connections within the limit are answered");
      await until(
        async () => (await answered(hostile, accomplice, 50, "udp", 500)) <= 0,
        () => `the pod still connects, with ${connections()} connections`,
      );
      assert.equal(await answered(other, accomplice, 50), 50);
      assert.equal(await answered(other, accomplice, 20, "tcp"), 20);
      const to = addressesOf(hostile)[index] ?? assert.fail(family);
      wired.node.exec("ip", ["neighbour", "flush", "dev", "cni0", "nud", "all"]);
      const [fromNode] = await prober.run([{ protocol: "icmp", from: wired.node, to: { address: to, port: 0 } }]);
      assert.equal(fromNode?.reached, true, `its node still finds its link: ${fromNode?.why}`);
      await until(
        () => connections() <= (index + 1) * (LIMIT + 170),
        () => `${connections()} connections stay`,
      );
      const dropped = wired.node.exec("nft", ["list", "chain", "inet", "drawbridge-policy", "crowded_forward"]);
      assert.match(dropped, new RegExp(`saddr @crowded${family === "IPv4" ? 4 : 6} counter packets [1-9]`));
    });
  }
});
