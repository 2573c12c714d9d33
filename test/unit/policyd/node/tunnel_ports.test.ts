import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { TunnelPorts } from "../../../../policyd/node/tunnel_ports.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";

describe("policyd tunnel ports", () => {
  it("GUARD-17: ports of tunnels that the kernel does not list are listed again without a change of a link, and logged once each time", async () => {
    const [clock, logger] = [new FakeClock(), recordingLogger()];
    let [refusals, claims] = [3, 0];
    const links = (): readonly [] => {
      if (refusals-- > 0) throw new DrawbridgeError("ERR_SYSCALL", "socket: EMFILE");
      return [];
    };
    const ports = new TunnelPorts({ ruleset: { claim: () => void claims++ }, clock, logger, links });
    ports.begin();
    clock.pass(60_000);
    assert.deepEqual([claims, refusals, logger.lines.length], [1, -1, 1]);
    refusals = 1;
    ports.lookAgain();
    clock.pass(60_000);
    assert.deepEqual([claims, refusals, logger.lines.length], [2, -1, 2]);
    await ports.stop();
    ports.lookAgain();
    assert.equal(claims, 2);
  });
});
