import assert from "node:assert/strict";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { Ruleset } from "../../policyd/ruleset/ruleset.ts";
import { recordingLogger } from "../../policyd/log/recording_logger.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { contentOf } from "../support/ruleset/content.ts";
import { FaultyNftables } from "../support/ruleset/faulty_nftables.ts";
import { sampleClaims, sampleTables } from "../support/ruleset/sample.ts";
import { requireKernel } from "../support/privilege.ts";
import { randomFrom } from "../support/random.ts";

const CHANGES = 10_000;
const FAULT_PROBABILITY = 0.3;
const OWNERS = 300;
const RETRIES = 3;

describe("policyd/ruleset on a kernel that fails", () => {
  let lab: Lab | undefined;
  let node: LabNamespace;

  before(function () {
    requireKernel(this);
    lab = createLab("ruleset-faults");
    node = lab.namespace("node");
  });
  after(() => lab?.destroy());

  it(`equals a fresh build within ${RETRIES} retries after ${CHANGES} changes with faults (DP-05)`, function () {
    this.timeout(120_000);
    const seed = Date.now() >>> 0;
    const random = randomFrom(seed);
    const socket = node.inside(() => new NftablesSocket(node.calls));
    const kernel = new FaultyNftables(socket, random, { commit: FAULT_PROBABILITY, read: 0 });
    const clock = new FakeClock();
    const tables = sampleTables();
    const options = { clock, logger: recordingLogger(), tables, minSyncPeriod: 0, syncPeriod: 3_600_000 };
    const ruleset = new Ruleset({ ...options, kernel });
    ruleset.start();
    const claims = new Map<string, readonly [number, number]>();
    for (let change = 0; change < CHANGES; change++) {
      const number = Math.floor(random() * OWNERS);
      if (random() < 0.3) claims.delete(`o${number}`);
      else claims.set(`o${number}`, [number, Math.floor(random() * 100)]);
      const claim = claims.get(`o${number}`);
      ruleset.claim(`o${number}`, claim === undefined ? [] : sampleClaims(...claim));
      // Some waits for a retry fit in, so hundreds of batches fail with any seed.
      clock.pass(10);
    }
    kernel.setRates({ commit: 0, read: 0 });
    let retries = 0;
    while (!ruleset.flush()) retries++;
    assert.ok(kernel.faults > 100, `${kernel.faults} faults`);
    assert.ok(retries <= RETRIES, `${retries} retries; seed ${seed}`);

    const fresh = lab?.namespace("fresh");
    assert.ok(fresh !== undefined);
    const other = fresh.inside(() => new NftablesSocket(fresh.calls));
    const rebuilt = new Ruleset({ ...options, kernel: other });
    for (const [owner, claim] of claims) rebuilt.claim(owner, sampleClaims(...claim));
    rebuilt.start();
    for (const table of tables) assert.equal(contentOf(socket, table), contentOf(other, table), `seed ${seed}`);
    assert.equal(node.exec("nft", ["list", "ruleset"]).length, fresh.exec("nft", ["list", "ruleset"]).length);
  });
});
