import process from "node:process";
import * as fc from "fast-check";
import { createLab, type Lab } from "../../lab/lab.ts";
import { requireKernel } from "../../support/privilege.ts";
import { HarmedNode } from "../../support/node_state/harmed_node.ts";
import { HARMS } from "../../support/node_state/harms.ts";

const ROUNDS = process.env["DRAWBRIDGE_FULL"] === "1" ? 300 : 30;
/** In one of this number of rounds no daemon runs while the harm is done. */
const ROUNDS_OF_A_DEATH = 6;

interface Round {
  readonly harms: readonly { readonly index: number; readonly port: number }[];
  readonly isDaemonDead: boolean;
}

const harm = fc.record({ index: fc.nat(HARMS.length - 1), port: fc.nat(2) });
const rounds: fc.Arbitrary<Round> = fc.record({
  harms: fc.array(harm, { minLength: 1, maxLength: 2 }),
  isDaemonDead: fc.nat(ROUNDS_OF_A_DEATH - 1).map((number) => number === 0),
});

describe("rounds of harm to a node", function () {
  this.timeout(ROUNDS * 20_000);
  let lab: Lab;
  let harmed: HarmedNode;

  before(async function () {
    requireKernel(this);
    lab = createLab("harm-rounds");
    harmed = new HarmedNode(lab);
    await harmed.start();
  });
  after(async () => {
    await harmed?.end();
    lab?.destroy();
  });

  it(`STATE-01 STATE-02: after each of ${ROUNDS} random harms, singly, in pairs and while no daemon runs, all pods work again within a second`, async () => {
    const property = fc.asyncProperty(rounds, async ({ harms, isDaemonDead }) => {
      const { node } = harmed.wired;
      const names = harms.map(({ index }) => HARMS[index]?.name).join(" and ");
      await harmed.demandRepair(`${names}${isDaemonDead ? ", without a daemon" : ""}`, async () => {
        if (isDaemonDead) await harmed.policyd.kill();
        const ports = [0, 1, 2].map((port) => harmed.portOf(port));
        for (const { index, port } of harms) {
          const one = HARMS[index];
          // Records that go while no daemon runs are lost.
          if (!isDaemonDead || one?.needsDaemon !== true) one?.commit(node, ports[port] ?? "", harmed.files);
        }
        if (isDaemonDead) await harmed.restart();
      });
    });
    // The node keeps its state from round to round, so a failure is not shrunk.
    const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 2 ** 31);
    await fc.assert(property, { numRuns: ROUNDS, endOnFailure: true, seed });
    const { flows, state, what } = harmed.worst;
    const median = harmed.repairs.toSorted((a, b) => a - b)[Math.floor(harmed.repairs.length / 2)] ?? 0;
    process.stdout.write(
      `      seed ${seed} (DRAWBRIDGE_SEED replays it), ${ROUNDS} rounds of ${HARMS.length} harms: all pods worked after ${median.toFixed(0)} ms in the median and ${flows.toFixed(0)} at most, and all was as before after ${state.toFixed(0)} ms (${what})\n`,
    );
  });
});
