import assert from "node:assert/strict";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { SyncTimes } from "../../../../policyd/metrics/sync_times.ts";

describe("policyd/metrics/sync_times", () => {
  it("SYNC-06: the duration of each batch is in a histogram of seconds", async () => {
    const times = new SyncTimes({ logger: recordingLogger(), now: () => 0 });
    times.committed(0.0002);
    times.committed(0.3);
    const text = await times.registry.metrics();
    assert.match(text, /^# TYPE drawbridge_sync_duration_seconds histogram$/m);
    assert.match(text, /^drawbridge_sync_duration_seconds_bucket\{le="0\.0001"\} 0$/m);
    assert.match(text, /^drawbridge_sync_duration_seconds_bucket\{le="0\.00025"\} 1$/m);
    assert.match(text, /^drawbridge_sync_duration_seconds_bucket\{le="0\.5"\} 2$/m);
    assert.match(text, /^drawbridge_sync_duration_seconds_count 2$/m);
    assert.match(text, /^drawbridge_sync_last_timestamp_seconds 1\d{9}/m);
  });

  it("API-18: the time until objects are read and rules are in force is reported once each, and not before", async () => {
    const logger = recordingLogger();
    let now = 0;
    const times = new SyncTimes({ logger, now: () => now });
    const lines = async (): Promise<readonly string[]> =>
      (await times.registry.metrics()).split("\n").filter((line) => line.startsWith("drawbridge_first_sync_seconds{"));
    now = 100;
    times.rulesInForce();
    assert.deepEqual(await lines(), []);
    now = 1500;
    times.synced();
    assert.deepEqual(await lines(), ['drawbridge_first_sync_seconds{stage="objects"} 1.5']);
    for (now of [1750, 9000]) times.rulesInForce();
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
