import assert from "node:assert/strict";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { createLab } from "../lab/lab.ts";
import { requireKernel } from "../support/privilege.ts";
import { randomFrom } from "../support/random.ts";
import { runIncrementally } from "../support/services/incremental.ts";
import { TABLES } from "../support/services/random_node.ts";
import { countedSeed, roundsFor } from "../support/long_form.ts";

const EVENTS = roundsFor("random events", 1000, 10_000);
const COMPARE_EVERY = 200;

describe("Services in a kernel that fails", () => {
  before(function () {
    requireKernel(this);
  });

  it(`DP-11: after ${EVENTS} random events the tables equal a fresh build in an empty namespace`, function () {
    this.timeout(1_200_000);
    using lab = createLab("incremental");
    const seed = countedSeed();
    console.log(`      seed ${seed}`);
    let builds = 0;
    const open = (name: string): NftablesSocket => lab.namespace(name).inside(() => new NftablesSocket(lab.calls));
    const kernel = open("node");
    const outcome = runIncrementally({
      events: EVENTS,
      compareEvery: COMPARE_EVERY,
      random: randomFrom(seed),
      kernel,
      tables: TABLES,
      fresh: () => open(`fresh${builds++}`),
    });
    console.log(`      ${JSON.stringify(outcome)}`);
    assert.equal(outcome.comparisons, EVENTS / COMPARE_EVERY);
    // There are 80 in 1000 events, with a standard deviation of 12.
    assert.ok(outcome.faults > EVENTS / 50, JSON.stringify(outcome));
    kernel.close();
  });
});
