import assert from "node:assert/strict";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { LAB_BRIDGE } from "../../lab/cni.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { requireKernel } from "../../support/privilege.ts";
import { FAMILIES, flow, RouteLab, until } from "../../support/routes/route_lab.ts";

describe("a node in surroundings that are not simple", function () {
  this.timeout(300_000);
  let on: RouteLab;
  let daemons: readonly DaemonProcess[];

  before(async function () {
    requireKernel(this);
    on = new RouteLab("surroundings");
    daemons = await on.start();
    await on.untilPodsReachPods();
  });
  after(async () => {
    await on?.killAll();
    on?.[Symbol.dispose]();
  });

  /** Returns the status of a Node with further InternalIPs before its own. */
  const naming = (number: 0 | 1 | 2, ...first: readonly string[]) => {
    const { addresses } = on.nodes[number];
    const all = [...first, ...FAMILIES.map((family) => formatAddress(addresses[family]))];
    return { status: { addresses: all.map((address) => ({ type: "InternalIP", address })) } };
  };
  /** Waits until pods reach pods and no daemon has a problem. */
  const untilWell = async (): Promise<void> => {
    on.put("nodes.json", on.nodeList());
    await on.untilPodsReachPods();
    await Promise.all(daemons.map((one) => one.statusWhen(({ problemCount }) => problemCount === 0, "no problem")));
  };

  for (const [what, first] of [
    ["bridge", (number: number) => [`10.244.${number}.1`, `fd00:244:${number}::1`]],
    ["docker0", () => ["172.17.0.1"]],
    ["VIP that has moved", () => ["192.0.2.100", "2001:db8:2::100"]],
  ] as const) {
    it(`D1: pods reach pods where Nodes name the address of a ${what} first, and the tunnel and routes keep the nodes' own`, async () => {
      const before = on.describe();
      on.put("nodes.json", on.nodeList({ node1: naming(0, ...first(1)), node3: naming(2, ...first(3)) }));
      await daemons[0]?.statusWhen(({ problemCount }) => problemCount >= 2, "the address is reported");
      await on.untilPodsReachPods();
      await until(
        () => on.describe() === before,
        () => on.describe(),
      );
      await untilWell();
    });
  }

  it("D14: pods reach pods without a gap while a controller reports Nodes without addresses or in another order", async () => {
    const before = on.describe();
    const [v4, v6] = FAMILIES.map((family) => ({
      type: "InternalIP",
      address: formatAddress(on.nodes[2].addresses[family]),
    }));
    for (const addresses of [[], [v6], [v6, v4]]) {
      on.put("nodes.json", on.nodeList({ node3: { status: { addresses } }, node1: { status: { addresses: [] } } }));
      await Promise.all(daemons.map((one) => one.statusWhen(({ problemCount }) => problemCount >= 2, "reported")));
      const flows = on.nodes.flatMap((from) =>
        on.nodes.flatMap((to) => FAMILIES.map((family) => flow(from.pod, to.podAddresses[family]))),
      );
      const results = await on.prober.run(flows, { timeoutMilliseconds: 2000 });
      assert.deepEqual(results.filter(({ reached }) => !reached).length, 0, on.describe());
      assert.equal(on.describe(), before);
    }
    await untilWell();
  });

  it("STATE-08: a node that gets the pod CIDR which another node had before is reached from there", async () => {
    const { node } = on.nodes[1].wired;
    const further = { 4: "10.244.9.1", 6: "fd00:244:9::1" } as const;
    for (const family of FAMILIES) {
      const length = family === 4 ? "24" : "64";
      node.exec("ip", [
        "address",
        "add",
        `${further[family]}/${length}`,
        "dev",
        LAB_BRIDGE,
        ...(family === 6 ? ["nodad"] : []),
      ]);
      on.nodes[2].wired.node.exec("ip", [
        "address",
        "add",
        `${further[family]}/${family === 4 ? 32 : 128}`,
        "dev",
        "lo",
      ]);
    }
    on.prober.listen("tcp", { namespace: on.nodes[2].wired.node, address: parseAddress(further[4]), port: 8080 });
    on.prober.listen("tcp", { namespace: on.nodes[2].wired.node, address: parseAddress(further[6]), port: 8080 });
    const podCIDRs = ["10.244.9.0/24", "fd00:244:9::/64"];
    on.put("nodes.json", on.nodeList({ node3: { spec: { podCIDRs } } }));
    await on.untilReached(FAMILIES.map((family) => flow(on.nodes[1].pod, parseAddress(further[family]))));
    await untilWell();
  });
});
