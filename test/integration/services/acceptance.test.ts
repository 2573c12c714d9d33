import { FAMILIES } from "../../../kernel/ip/address.ts";
import assert from "node:assert/strict";
import { ServiceDropReason } from "../../../policyd/services/rules/check_part.ts";
import { hasLongForm } from "../../support/long_form.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";
import { AcceptanceLab } from "../../support/services/acceptance/acceptance_lab.ts";
import { Judge } from "../../support/services/acceptance/judge.ts";
import { measure } from "../../support/services/acceptance/measure.ts";
import type { Measured } from "../../support/services/acceptance/measured.ts";
import { ROWS } from "../../support/services/acceptance/rows.ts";
import { ROWS_THAT_DO_NOT_HOLD } from "../../support/services/acceptance/rows_that_do_not_hold.ts";
import type { AcceptanceWorld } from "../../support/services/acceptance/world.ts";

interface Run {
  readonly world: AcceptanceWorld;
  readonly measured: Measured;
}

/** Whether bridged frames pass the IP hooks, on one node of two; the full run has the other way round, too. */
const WAYS = [
  { n1: true, n2: false },
  ...(hasLongForm("Services with br_netfilter the other way round") ? [{ n1: false, n2: true }] : []),
];

/**
 * Checks the acceptance table of Services with real packets. All packets are sent before the first test; each test then
 * compares the measurements with one row.
 */
describe("MODEL-02: acceptance table of Services, rp_filter strict", function () {
  this.timeout(1_200_000);

  for (const way of WAYS) {
    describe(`br_netfilter on at ${way.n1 ? "n1" : "n2"} only`, () => {
      let measuring: Promise<Run> | undefined;

      before(async function () {
        requireKernel(this);
        requireBridgeNetfilter(this);
        measuring = run(way);
        await Promise.allSettled([measuring]);
      });

      const measuredOf = async (): Promise<Run> => {
        const found = await measuring;
        assert.ok(found !== undefined);
        return found;
      };

      for (const family of FAMILIES) {
        for (const row of ROWS.filter(({ onTop }) => onTop === undefined)) {
          it(`IPv${family} ${row.id} ${row.behaviours}: ${row.says}`, async () => {
            const { world, measured } = await measuredOf();
            assert.deepEqual(new Judge(world, measured, family).problems(row), []);
          });
        }

        it(`IPv${family}: rows that do not hold are noticed`, async () => {
          const { world, measured } = await measuredOf();
          const judge = new Judge(world, measured, family);
          const unnoticed = ROWS_THAT_DO_NOT_HOLD.filter((row) => judge.problems(row).length === 0);
          assert.deepEqual(
            unnoticed.map(({ says }) => says),
            [],
          );
        });
      }

      it("ETP-03 LB-06 NODE-11: packets dropped in silence are counted by their reason", async () => {
        const { measured } = await measuredOf();
        for (const [failure, reason] of [
          ["no local endpoint", ServiceDropReason.NO_LOCAL],
          ["source not allowed", ServiceDropReason.SOURCE],
        ] as const) {
          const sent = measured.results.filter(
            ({ shot: { row, probe } }) => ROWS.includes(row) && "fails" in probe && probe.fails === failure,
          );
          assert.ok(sent.length > 0);
          assert.ok((measured.drops.get(reason) ?? 0) >= sent.length, `${reason}: ${measured.drops.get(reason)}`);
        }
      });
    });
  }
});

async function run(way: (typeof WAYS)[number]): Promise<Run> {
  const lab = await AcceptanceLab.create(way);
  try {
    return { world: lab.world, measured: await measure(lab, [...ROWS, ...ROWS_THAT_DO_NOT_HOLD]) };
  } finally {
    lab.close();
  }
}
