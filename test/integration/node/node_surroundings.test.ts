import { formatAddress } from "../../../kernel/ip/address.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { requireKernel } from "../../support/privilege.ts";
import { FAMILIES, RouteLab, until } from "../../support/routes/route_lab.ts";

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
});
