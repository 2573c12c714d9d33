import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { foreignPorts } from "../../../../policyd/coexistence/foreign_ports.ts";
import { type BridgeSight, TakeOver } from "../../../../policyd/coexistence/take_over.ts";
import { recordingNotices } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";

describe("policyd/coexistence: taking over a bridge", () => {
  let sight: BridgeSight | "silent";
  let clock: FakeClock;
  let events: ReturnType<typeof recordingNotices>;
  let takeOver: TakeOver;
  let isGranted: boolean;

  beforeEach(() => {
    clock = new FakeClock();
    events = recordingNotices();
    isGranted = false;
  });

  async function start(first: typeof sight): Promise<void> {
    sight = first;
    const look = (): BridgeSight => {
      if (sight === "silent") throw new DrawbridgeError("ERR_NETLINK", "no answer");
      return sight;
    };
    takeOver = new TakeOver({ bridge: "cni0", nodeName: "a", clock, logger: recordingLogger(), events, look });
    void takeOver.granted().then(() => (isGranted = true));
    await turn();
  }

  async function advance(milliseconds: number): Promise<void> {
    clock.pass(milliseconds);
    await turn();
  }

  async function turn(): Promise<void> {
    await new Promise((settle) => setImmediate(settle));
  }

  it("FOREIGN-02: a bridge without foreign ports is taken over at once", async () => {
    await start({ foreignPorts: [], isOurs: false });
    assert.deepEqual([isGranted, takeOver.refusal, takeOver.problems()], [true, undefined, []]);
    assert.equal(takeOver.condition.missing(), undefined);
  });

  it("FOREIGN-02: a bridge with foreign ports is refused with the way out, reported once, and taken over when they are gone", async () => {
    await start({ foreignPorts: ["veth1", "veth2", "veth3", "veth4"], isOurs: false });
    await advance(60_000);
    assert.equal(isGranted, false);
    assert.match(takeOver.refusal ?? "", /"cni0" has 4 ports that are not of Drawbridge \(veth1, veth2, veth3 …\)/);
    assert.match(takeOver.condition.missing() ?? "", /drawbridge0.*ip link set veth1 nomaster/);
    assert.equal(takeOver.isForbidden, true);
    assert.deepEqual(
      events.notices.map(({ reason }) => reason),
      ["InstallationProblem"],
    );
    sight = { foreignPorts: [], isOurs: false };
    await advance(1000);
    assert.deepEqual([isGranted, takeOver.refusal, takeOver.problems()], [true, undefined, []]);
    assert.equal(takeOver.isForbidden, false);
  });

  it("FOREIGN-02: a bridge with foreign ports may not be changed before the daemon has asked for it", () => {
    let ports = ["veth1"];
    let isOurs = false;
    const look = (): BridgeSight => ({ foreignPorts: ports, isOurs });
    takeOver = new TakeOver({ bridge: "cni0", nodeName: "a", clock, logger: recordingLogger(), events, look });
    assert.equal(takeOver.isForbidden, true);
    isOurs = true;
    assert.equal(takeOver.isForbidden, false);
    [ports, isOurs] = [[], false];
    assert.equal(takeOver.isForbidden, false);
    assert.deepEqual([takeOver.problems(), events.notices.length], [[], 0]);
  });

  it("FOREIGN-02: foreign ports on a bridge that is already ours are only reported, also those that come later", async () => {
    await start({ foreignPorts: ["eth1"], isOurs: true });
    assert.deepEqual([isGranted, takeOver.refusal], [true, undefined]);
    assert.match(takeOver.problems().join(), /1 port that is not of Drawbridge \(eth1\).*take them off the bridge/);
    sight = { foreignPorts: [], isOurs: true };
    await advance(60_000);
    assert.deepEqual(takeOver.problems(), []);
    sight = { foreignPorts: ["tap0"], isOurs: true };
    await advance(60_000);
    assert.match(takeOver.problems().join(), /tap0/);
    assert.equal(takeOver.refusal, undefined);
  });

  it("FOREIGN-02: a kernel that cannot list the ports gets no rules, and one that fails to later changes nothing", async () => {
    await start("silent");
    assert.deepEqual([isGranted, takeOver.refusal], [false, "bridge: its ports cannot be read: no answer"]);
    sight = { foreignPorts: [], isOurs: false };
    await advance(1000);
    assert.deepEqual([isGranted, takeOver.problems()], [true, []]);
    sight = "silent";
    await advance(60_000);
    assert.deepEqual(takeOver.problems(), []);
  });

  it("FOREIGN-02: a port that has a pod's name or is in a record is ours, and ports of other bridges do not count", () => {
    const links = [
      { index: 3, name: "cni0", master: undefined },
      { index: 4, name: "docker0", master: undefined },
      { index: 5, name: "dbv0123456789ab", master: 3 },
      { index: 6, name: "recorded", master: 3 },
      { index: 7, name: "dbvother", master: 3 },
      { index: 8, name: "eth1", master: 3 },
      { index: 9, name: "veth9", master: 4 },
    ];
    assert.deepEqual(foreignPorts(links, "cni0", [{ hostInterface: "recorded" }]), ["dbvother", "eth1"]);
    assert.deepEqual(foreignPorts(links, "drawbridge0", []), []);
  });
});
