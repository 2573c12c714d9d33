import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { LogFormat } from "../../../../policyd/log/line.ts";
import type { Level, Logger } from "../../../../policyd/log/logger.ts";
import { winstonLogger } from "../../../../policyd/log/winston_logger.ts";

function logged(
  level: Level,
  format: LogFormat,
  use: (logger: Logger) => void,
  clock = new FakeClock(),
): readonly string[] {
  const stream = new PassThrough();
  use(winstonLogger({ level, format }, stream, clock));
  const bytes: unknown = stream.read();
  const text = Buffer.isBuffer(bytes) ? bytes.toString("utf8") : "";
  return text.split("\n").slice(0, -1);
}

describe("policyd/log/winston_logger", () => {
  it("entries of the logger's level or above are written before the call returns", () => {
    const lines = logged("info", "text", (logger) => {
      logger.debug("not this");
      logger.info("started", { node: "n 1" });
      logger.error("failed");
    });
    assert.equal(lines.length, 2);
    assert.match(lines[0] ?? "", /^\d{4}-\d\d-\d\dT\S+ info  started node="n 1"$/);
    assert.match(lines[1] ?? "", / error failed$/);
  });

  it("the JSON format writes one object per entry, and fields cannot replace its level and message", () => {
    const [line = ""] = logged("debug", "json", (logger) => {
      logger.debug("%s %d", { level: "x", message: "forged", splat: "y" });
    });
    const { ts, ...entry } = JSON.parse(line) as Record<string, unknown>;
    assert.match(String(ts), /^\d{4}-/);
    assert.deepEqual(entry, { level: "debug", msg: "%s %d", message: "forged", splat: "y" });
  });
});
