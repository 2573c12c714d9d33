import assert from "node:assert/strict";
import { Registry } from "prom-client";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { FirstSync } from "../../../../policyd/metrics/first_sync.ts";

describe("policyd/metrics first sync", () => {
  it("API-20: the time until objects are read and rules are in force is reported once each, and not before", async () => {
    const registry = new Registry();
    const logger = recordingLogger();
    let now = 0;
    const firstSync = new FirstSync({ registry, logger, now: () => now });
    const lines = async (): Promise<readonly string[]> =>
      (await registry.metrics()).split("\n").filter((line) => line.startsWith("drawbridge_first_sync_seconds{"));
    now = 100;
    firstSync.rulesInForce();
    assert.deepEqual(await lines(), []);
    now = 1500;
    firstSync.synced();
    assert.deepEqual(await lines(), ['drawbridge_first_sync_seconds{stage="objects"} 1.5']);
    for (now of [1750, 9000]) firstSync.rulesInForce();
    assert.deepEqual(await lines(), [
      'drawbridge_first_sync_seconds{stage="objects"} 1.5',
      'drawbridge_first_sync_seconds{stage="rules"} 0.25',
    ]);
    assert.deepEqual(
      logger.lines.map(({ message, fields }) => [message, fields]),
      [["all rules are in force", { millisecondsAfterObjects: 250 }]],
    );
  });
});
