import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { createLab } from "../../lab/lab.ts";
import { forgetConnections } from "../../support/daemon/connections.ts";
import { ATTACK_PORTS, CrowdedNode, PORTS } from "../../support/daemon/crowded_node.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { requireKernel } from "../../support/privilege.ts";

/** The milliseconds after the pods' ADDs in which the daemon comes to rest. */
const REST_MILLISECONDS = 10_000;

const MOST_ROUNDS = 3;

/** Runs the attack's steps on a node of their own. */
async function on(
  name: string,
  configuration: Readonly<Record<string, unknown>>,
  steps: (node: CrowdedNode) => Promise<void>,
): Promise<void> {
  using lab = createLab(name);
  const node = new CrowdedNode(lab);
  try {
    await node.start({ ...configuration, masquerade: false });
    await steps(node);
  } finally {
    await node.close();
  }
}

describe("a table of connections that pods fill together", function () {
  this.timeout(300_000);

  before(function () {
    requireKernel(this);
  });

  it("without a limit four addresses of two pods keep a third pod from connecting", async function () {
    requireLongForm(this, "filling the table takes too long");
    await on("crowd-open", { connectionLimit: 0 }, async (node) => {
      assert.ok(node.capacity <= 4 * PORTS + 1000, `nf_conntrack_max is ${node.capacity}; expected 262144 at most`);
      assert.equal(await node.answered(), 80);
      let answered = 80;
      // On a busy machine the kernel drops some frames of the attack.
      for (let round = 0; round < MOST_ROUNDS && answered >= 40; round++) {
        await node.attack(ATTACK_PORTS[0]);
        assert.ok(node.connections > node.capacity - 1000, `the attack did not work: ${node.connections} connections`);
        answered = await node.answered();
      }
      assert.ok(answered < 40, `${answered} were answered with a full table`);
    });
  });

  it("GUARD-08 MEM-02: with shares four addresses of two pods keep no third pod from connecting; the daemon frees its memory", async () => {
    await on("crowd-shares", {}, async (node) => {
      await pause(REST_MILLISECONDS);
      const fresh = node.memory();
      // The second round continues while the connection brake is in force, until shares are needed.
      for (const port of ATTACK_PORTS) await node.attack(port);
      assert.equal(await node.answered(), 80, `with ${node.connections} connections`);
      for (let left = 1200; node.connections > node.capacity * (13 / 16); left--) {
        assert.ok(left > 0, `${node.connections} of ${node.capacity} connections stay`);
        await pause(50);
      }
      const log = node.daemon?.log() ?? "";
      for (const pod of ["hostile1", "hostile2"]) {
        assert.match(log, new RegExp(`pod has too many connections: no further ones begin pod=default/${pod} `));
      }
      assert.doesNotMatch(log, /too many connections: no further ones begin pod=default\/other /);
      // So no further sweep is needed.
      forgetConnections(node.wired.node);
      for (let left = 60; node.memory() > 1.2 * fresh; left--) {
        assert.ok(left > 0, `${node.memory()} MB after the sweeps, ${fresh} MB after the start`);
        await pause(1000);
      }
    });
  });
});
