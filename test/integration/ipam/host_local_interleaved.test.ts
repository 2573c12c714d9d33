import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { AddressStore } from "../../../ipam/store.ts";
import { pluginAs, podCall, startPlugin } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import {
  heldAddresses,
  HostLocal,
  NETWORK,
  ourAdd,
  ours,
  type Outcome,
  pod,
  SMALL,
} from "../../support/ipam/host_local.ts";
import { requirePeer } from "../../support/cni/peer.ts";
import { requireKernel } from "../../support/privilege.ts";
import { randomFrom } from "../../support/random.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { podAddresses } from "../../support/cni/container_state.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";

/** The number of pods: more than there are calls at once, and fewer than the 13 addresses of a range. */
const PODS = 12;
const AT_ONCE = 4;
/** The longest delay before a call in milliseconds, so that the calls of a round overlap at different points. */
const LONGEST_DELAY = 6;

/** One of the programs that share the store. */
interface Party {
  /** @returns addresses without prefix length */
  add(n: number): Promise<readonly string[]>;
  del(n: number): Promise<void>;
}

describe("Go's host-local and Drawbridge at work on one store at once", function () {
  this.timeout(120_000);
  const base = useTemporaryDirectory();
  let peer = "";

  before(function () {
    peer = `${requirePeer(this)}/host-local`;
  });

  it("I2: 200 calls of Go, our store and drawbridge-ipam give no address twice and leave nothing", async () => {
    const go = partyOf(new HostLocal(peer, base()));
    const executable = partyOf(new HostLocal(pluginAs("drawbridge-ipam", base()), base()));
    const parties = [go, executable, go, storeParty(ours(base()))];
    const live = await interleave({ parties, rounds: 50, directory: base(), partyFor: (_n, drawn) => drawn });
    for (const n of live) await (n % 2 === 0 ? go : executable).del(n);
    assert.deepEqual(readdirSync(`${base()}/${NETWORK}`).sort(), ["last_reserved_ip.0", "last_reserved_ip.1", "lock"]);
    assert.deepEqual(readdirSync(`${base()}/.drawbridge`), []);
  });

  describe("with pods", () => {
    let lab: Lab;

    before(function () {
      requireKernel(this);
      lab = createLab("interleaved");
    });

    after(() => lab?.destroy());

    it("I2: 100 calls of Go and of the plugin that wires pods give no address twice and leave nothing", async () => {
      const wired = twoNodes(lab).node1;
      const pods = Array.from({ length: PODS }, (_, n) => lab.pod(`n${n}`));
      const plugin = new PluginParty(wired, pods);
      const go = partyOf(new HostLocal(peer, wired.node.dataDir));
      const live = await interleave({
        parties: [go, plugin, plugin, go],
        rounds: 25,
        directory: wired.node.dataDir,
        // Go does not know links, so the plugin removes a wired pod. The plugin may also release what Go has reserved.
        partyFor: (n, drawn) => (plugin.wiredPods.has(n) ? plugin : drawn),
      });
      for (const n of live) await plugin.del(n);
      assert.deepEqual(nodeState(wired.node, "cni0", NETWORK), nothingHeld);
    });
  });
});

interface Interleaving {
  readonly parties: readonly Party[];
  readonly rounds: number;
  readonly directory: string;
  /** Returns the party that calls for a pod, given the party whose turn it is. */
  readonly partyFor: (n: number, drawn: Party) => Party;
}

/**
 * Runs rounds of four calls at once, each for another pod: ADD when the pod has no addresses, else DEL, whichever party
 * added it.
 *
 * @returns the pods that have addresses in the end
 */
async function interleave({ parties, rounds, directory, partyFor }: Interleaving): Promise<readonly number[]> {
  const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? 20_240_229);
  const random = randomFrom(seed);
  const live = new Map<number, readonly string[]>();
  const counted = { add: 0, del: 0 };
  for (let round = 0; round < rounds; round++) {
    const first = Math.floor(random() * AT_ONCE);
    const calls = Array.from({ length: AT_ONCE }, async (_, k) => {
      const n = Math.floor(random() * (PODS / AT_ONCE)) * AT_ONCE + k;
      const drawn = parties[(first + k) % parties.length];
      assert.ok(drawn !== undefined);
      const party = partyFor(n, drawn);
      await pause(random() * LONGEST_DELAY);
      if (live.has(n)) {
        counted.del++;
        await party.del(n);
        live.delete(n);
      } else {
        counted.add++;
        live.set(n, await party.add(n));
      }
    });
    await Promise.all(calls);
    const all = [...live.values()].flat();
    const where = `seed ${seed}, round ${round}: ${all.join(" ")}`;
    assert.equal(new Set(all).size, all.length, where);
    assert.deepEqual(new Set(heldAddresses(directory)), new Set(all), where);
  }
  assert.equal(counted.add + counted.del, rounds * AT_ONCE);
  assert.ok(counted.del > rounds, "too few releases to mean anything");
  return [...live.keys()];
}

function partyOf(executable: HostLocal): Party {
  return {
    add: async (n) => addressesOf(await executable.call("ADD", SMALL, pod(n))),
    del: async (n) => assert.deepEqual(await executable.call("DEL", SMALL, pod(n)), { ips: [] }),
  };
}

function storeParty(store: AddressStore): Party {
  return {
    add: async (n) => addressesOf(ourAdd(store, SMALL, pod(n))),
    del: async (n) => assert.equal(store.release(pod(n)).length, 2),
  };
}

/** The plugin itself, which wires pods in a lab. */
class PluginParty implements Party {
  readonly wiredPods = new Set<number>();
  readonly #wired: WiredNode;
  readonly #pods: readonly LabPod[];

  constructor(wired: WiredNode, pods: readonly LabPod[]) {
    this.#wired = wired;
    this.#pods = pods;
  }

  async add(n: number): Promise<readonly string[]> {
    this.wiredPods.add(n);
    const { ips } = podResult(await this.#call("ADD", n));
    const addresses = ips.map(({ address }) => address);
    assert.deepEqual(podAddresses(this.#pod(n)).toSorted(), addresses.toSorted());
    return addresses.map(withoutPrefix);
  }

  async del(n: number): Promise<void> {
    const { exitCode, stdout } = await this.#call("DEL", n);
    assert.equal(exitCode, 0, stdout);
    this.wiredPods.delete(n);
  }

  #call(command: "ADD" | "DEL", n: number): ReturnType<typeof startPlugin>["outcome"] {
    const ipam = { type: "host-local", dataDir: this.#wired.node.dataDir, ranges: SMALL };
    const options = { containerId: pod(n).containerId };
    return startPlugin(this.#wired.node, podCall(command, this.#wired, this.#pod(n), { name: NETWORK, ipam }, options))
      .outcome;
  }

  #pod(n: number): LabPod {
    const found = this.#pods[n];
    assert.ok(found !== undefined);
    return found;
  }
}

function addressesOf(outcome: Outcome): readonly string[] {
  assert.ok("ips" in outcome && outcome.ips.length === 2, JSON.stringify(outcome));
  return outcome.ips.map(withoutPrefix);
}

function withoutPrefix(address: string): string {
  return address.replace(/\/\d+$/, "");
}
