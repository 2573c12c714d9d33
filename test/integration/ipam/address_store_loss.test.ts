import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { add, del } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { scrape } from "../../support/daemon/scrape.ts";
import { addressesOf } from "../../support/host_ports/localhost_node.ts";
import { until } from "../../support/until.ts";

/** How long a test waits for reservations to be back. The daemon checks once a second, but a busy machine is slow. */
const BACK_MILLISECONDS = 10_000;
const NETWORK = "drawbridge";

describe("the address store, removed under running pods", function () {
  this.timeout(60_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let store = "";

  before(function () {
    requireKernel(this);
  });
  beforeEach(() => {
    lab = createLab("address-store-loss");
    ({ node1: wired } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
    store = `${wired.node.dataDir}/${NETWORK}`;
  });
  afterEach(async () => {
    await policyd.kill();
    lab.destroy();
  });

  function attached(name: string, overrides?: PolicydNode["overrides"]): LabPod {
    const pod = lab.pod(name);
    const { error } = add(wired, pod, overrides);
    assert.equal(error, undefined, JSON.stringify(error));
    return pod;
  }

  function attach(name: string): readonly string[] {
    return addressesOf(attached(name)).map(String);
  }

  /** Returns the owner of each reservation, by address. */
  function reservations(): Readonly<Record<string, string>> {
    const names = existsSync(store) ? readdirSync(store).filter((name) => /^[0-9a-f]+[.:]/.test(name)) : [];
    return Object.fromEntries(names.toSorted().map((name) => [name, readFileSync(`${store}/${name}`, "utf8")]));
  }

  const harms: readonly (readonly [string, () => void])[] = [
    ["the network's directory is removed", () => rmSync(store, { recursive: true, maxRetries: 5 })],
    ["all of its files are removed", () => readdirSync(store).forEach((name) => rmSync(`${store}/${name}`))],
    ["the directory of all networks is removed", () => rmSync(wired.node.dataDir, { recursive: true, maxRetries: 5 })],
  ];

  for (const [what, harm] of harms) {
    it(`STATE-07: when ${what} while no daemon runs, the next ADD does not give a running pod's address to another pod`, () => {
      const running = ["a", "b"].flatMap((name) => attach(name));
      const before = reservations();
      harm();
      const next = attach("next");
      assert.ok(!next.some((address) => running.includes(address)));
      const now = reservations();
      assert.deepEqual(Object.fromEntries(Object.keys(before).map((name) => [name, now[name]])), before);
    });

    it(`STATE-07: when ${what}, the daemon restores, counts and logs all reservations of running pods within a second`, async () => {
      const daemon = await policyd.start();
      const pods = ["a", "b", "gone"].map((name) => attached(name, policyd.overrides));
      assert.equal(del(wired, pods[2] ?? assert.fail(), policyd.overrides).error, undefined);
      const before = reservations();
      // A reservation counts as kept once the daemon has seen it.
      await new Promise((resolve) => setTimeout(resolve, 1100));
      harm();
      await until(() => JSON.stringify(reservations()) === JSON.stringify(before), what, BACK_MILLISECONDS);
      // A check may have run while only some of them were removed.
      const restored = (): number =>
        [
          ...daemon.log().matchAll(/they are there again what="reservations of pods' addresses" restored=(\d+)/g),
        ].reduce((sum, [, count]) => sum + Number(count), 0);
      await until(() => restored() === 4, "the log says so", BACK_MILLISECONDS);
      assert.equal(scrape(wired.node).get('drawbridge_node_repairs_total{part="reservation"}'), 4);
    });
  }

  it("STATE-07: the daemon restores one removed reservation within a second, but none of a pod whose DEL has found no daemon", async () => {
    await policyd.start();
    const [pod] = ["a", "b"].map((name) => attached(name, policyd.overrides));
    await new Promise((resolve) => setTimeout(resolve, 1100));
    const before = reservations();
    const [name = ""] = Object.keys(before);
    rmSync(`${store}/${name}`);
    await until(() => JSON.stringify(reservations()) === JSON.stringify(before), "it is back", BACK_MILLISECONDS);
    assert.equal(del(wired, pod ?? assert.fail()).error, undefined);
    const left = reservations();
    assert.equal(Object.keys(left).length, 2);
    await new Promise((resolve) => setTimeout(resolve, 1500));
    assert.deepEqual(reservations(), left);
  });
});
