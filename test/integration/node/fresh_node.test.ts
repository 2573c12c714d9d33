import assert from "node:assert/strict";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { acquireFileLock } from "../../../kernel/file_lock.ts";
import { dumpAddresses, parseInterfaceAddress } from "../../../kernel/route/interface_address.ts";
import { type CallOutcome, podCall, type RunningCall, startPlugin } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { twoNodes } from "../../lab/topology.ts";
import { requireKernel } from "../../support/privilege.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { addressesOf } from "../../support/cni/kernel_state.ts";
import { roundsFor } from "../../support/long_form.ts";

const AT_ONCE = 16;
const NODES = roundsFor("nodes", 2, 20);
/** A time after which all calls wait at the lock. */
const LOCKED_MILLISECONDS = 300;

describe("a fresh node, as after a reboot", function () {
  this.timeout(300_000);

  before(function () {
    requireKernel(this);
  });

  it(`B1 B18: ${AT_ONCE} ADDs at once on each of ${NODES} nodes succeed with one bridge and distinct addresses, none of them tentative`, async () => {
    for (let round = 0; round < NODES; round++) {
      using lab = createLab(`fresh${round}`);
      const { node1: wired } = twoNodes(lab);
      const pods = Array.from({ length: AT_ONCE }, (_, i) => lab.pod(`p${i}`));
      const outcomes = await atOnce(lab, (launcher) =>
        pods.map((pod) => startPlugin(wired.node, podCall("ADD", wired, pod, {}, { launcher }))),
      );
      const unusable = [wired.node, ...pods].flatMap(notAnswering);

      assert.deepEqual(unusable, [], `node ${round}`);
      const given = outcomes.map((outcome) => podResult(outcome).ips.map(({ address }) => address));
      for (const [i, pod] of pods.entries()) assert.deepEqual(addressesOf(pod, "eth0"), given[i]);
      for (const family of [0, 1]) {
        assert.equal(new Set(given.map((addresses) => addresses[family])).size, AT_ONCE, JSON.stringify(given));
      }
      const links = wired.node.links();
      const bridges = links.filter(({ kind }) => kind === "bridge");
      assert.deepEqual(
        bridges.map(({ name }) => name),
        ["cni0"],
      );
      assert.equal(links.filter(({ master }) => master === bridges[0]?.index).length, AT_ONCE);
      assert.deepEqual(addressesOf(wired.node, "cni0"), ["10.244.1.1/24", "fd00:244:1::1/64"]);
    }
  });
});

/**
 * Starts plugins that wait for a lock, and releases them at the same moment. Started one after the other, the first
 * plugin would make the bridge before the second looks for it.
 *
 * @param start starts the plugins with the command line that waits
 */
async function atOnce(
  lab: Lab,
  start: (launcher: readonly string[]) => readonly RunningCall[],
): Promise<readonly CallOutcome[]> {
  const gate = path.join(lab.scratch, "gate");
  const release = acquireFileLock(lab.calls, gate);
  const running = start(["flock", "--shared", "--close", gate]);
  await pause(LOCKED_MILLISECONDS);
  release();
  return Promise.all(running.map(({ outcome }) => outcome));
}

/** Returns the addresses whose duplicate detection is under way or has failed. */
function notAnswering(namespace: LabNamespace): readonly unknown[] {
  const addresses = namespace.route.dump(dumpAddresses()).map(parseInterfaceAddress);
  assert.ok(addresses.length > 0);
  return addresses
    .filter((address) => address?.tentative || address?.duplicateDetected)
    .map((address) => ({ in: namespace.name, ...address }));
}
