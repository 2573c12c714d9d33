import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { FakeClock } from "../../../support/fake_clock.ts";
import { hostFiles } from "../../../../policyd/installation/host_files.ts";
import { Installation, type InstallationParts } from "../../../../policyd/installation/installation.ts";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import type { ObjectChange } from "../../../../objects/model.ts";
import { listValues } from "../../../support/installation/own_part.ts";
import { readScenario } from "../../../support/services/scenario.ts";

const SYNC_PERIOD = 30_000;

function node(name: string, podCidrs: readonly string[]): readonly ObjectChange[] {
  const spec = JSON.stringify(podCidrs.length === 0 ? {} : { podCIDRs: podCidrs });
  const objects = readScenario(`{ apiVersion: v1, kind: Node, metadata: { name: ${name} }, spec: ${spec} }`);
  return objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object }));
}

describe("policyd/installation", function () {
  this.timeout(60_000);
  let root = "";
  let clock = new FakeClock();
  let logger = recordingLogger();
  let events: ReturnType<typeof recordingNotices>;
  let running: Installation[] = [];

  beforeEach(() => {
    root = mkdtempSync(`${tmpdir()}/drawbridge-installation-`);
    clock = new FakeClock();
    logger = recordingLogger();
    events = recordingNotices();
    mkdirSync(`${root}/source`);
    writeFileSync(`${root}/source/drawbridge`, "#!/bin/sh\n");
  });
  afterEach(async () => {
    for (const installation of running) await installation.stop();
    running = [];
    rmSync(root, { recursive: true });
  });

  function start(parts: Partial<InstallationParts> = {}, objects: readonly ObjectChange[] = []): Installation {
    const judge = new NodeJudge({ nodeName: "n1" });
    judge.apply(objects);
    const installation = new Installation({
      files: hostFiles,
      clock,
      logger,
      events,
      places: { source: `${root}/source`, binaries: `${root}/bin`, configurations: `${root}/conf` },
      nodeName: "n1",
      judge,
      podCidrs: [],
      network: { bridge: "drawbridge0", socketPath: "/run/drawbridge/policyd.sock", stateDirectory: "/run/drawbridge" },
      chain: [],
      primary: undefined,
      mtu: () => 1450,
      syncPeriod: SYNC_PERIOD,
      ...parts,
    });
    running.push(installation);
    installation.start();
    return installation;
  }

  /** Lets time pass until the condition holds. */
  async function until(holds: () => boolean, what: string, step = 100): Promise<void> {
    for (let left = 1000; !holds(); left--) {
      assert.ok(left > 0, `${what}; problems: ${running.at(-1)?.problems().join("; ")}`);
      clock.pass(step);
      await pause(5);
    }
  }

  /** Lets enough time pass for a check that changes nothing. */
  async function aWhile(): Promise<void> {
    for (let turn = 0; turn < 30; turn++) {
      clock.pass(1000);
      await pause(2);
    }
  }

  const configuration = (): string => {
    const file = `${root}/conf/10-drawbridge.conflist`;
    return existsSync(file) ? readFileSync(file, "utf8") : "";
  };
  const isPluginThere = (): boolean => existsSync(`${root}/bin/drawbridge`);
  const linesAbout = (text: string): number =>
    logger.lines.filter((line) => JSON.stringify(line).includes(text)).length;

  async function installed(parts: Partial<InstallationParts> = {}): Promise<Installation> {
    const installation = start(parts, node("n1", ["10.244.1.0/24"]));
    installation.synced();
    installation.rulesInForce();
    await until(() => installation.isInstalled, "it is installed");
    return installation;
  }

  it("API-04: while no objects can be read, the plugin is restored and an earlier configuration stays", async () => {
    const installation = await installed();
    const before = configuration();
    await installation.stop();
    assert.equal(configuration(), before, "the configuration stays when the daemon ends");
    rmSync(`${root}/bin`, { recursive: true });
    start();
    await until(isPluginThere, "the plugin is there");
    await aWhile();
    assert.equal(configuration(), before);
  });

  it("HEALTH-06: an MTU that is too small for dual-stack pods is reported, and no configuration is written until the MTU has grown", async () => {
    let mtu = 1230;
    const installation = start({ mtu: () => mtu }, node("n1", ["10.244.1.0/24", "fd00:244:1::/64"]));
    installation.synced();
    installation.rulesInForce();
    await until(() => installation.problems().length > 0, "the MTU is reported");
    assert.match(installation.problems().join(), /MTU of pods is 1230; expected 1280 .* larger by 50, or/);
    assert.equal(configuration(), "");
    mtu = 1280;
    installation.mtuChanged();
    await until(() => installation.isInstalled, "it is installed");
    assert.deepEqual(installation.problems(), []);
  });

  it("HEALTH-06: pods with IPv4 only may have an MTU that is too small for IPv6", async () => {
    await installed({ mtu: () => 1230 });
  });

  it("D5: another add-on's configuration that runtimes use instead is reported for as long as it is there", async () => {
    const installation = await installed();
    writeFileSync(`${root}/conf/05-other.conflist`, "{}");
    await until(() => installation.problems().length > 0, "the other configuration is reported");
    assert.match(installation.problems().join(), /05-other\.conflist comes before 10-drawbridge\.conflist/);
    assert.deepEqual(readdirSync(`${root}/conf`).sort(), ["05-other.conflist", "10-drawbridge.conflist"]);
    rmSync(`${root}/conf/05-other.conflist`);
    await until(() => installation.problems().length === 0, "the problem ends");
  });

  const types = (): readonly unknown[] => listValues(configuration()).plugins.map(({ type }) => type);

  it("CHAIN-04: an entry that cniChain no longer has is removed from the list that the previous daemon wrote", async () => {
    const chain = [{ type: "portmap", capabilities: { portMappings: true } }, { type: "tuning" }];
    const first = await installed({ chain });
    assert.deepEqual(types(), ["drawbridge", "portmap", "tuning"]);
    assert.equal(linesAbout('"portMappings"'), 1, "the log says that portmap forwards host ports");
    await first.stop();
    await installed({ chain: chain.slice(1) });
    assert.deepEqual(types(), ["drawbridge", "tuning"]);
  });

  it("CHAIN-04: another program's entry of the same type as one in cniChain is reported until one of the two is gone", async () => {
    mkdirSync(`${root}/bin`, { recursive: true });
    writeFileSync(`${root}/bin/tuning`, "", { mode: 0o755 });
    const installation = await installed({ chain: [{ type: "tuning" }] });
    const before = configuration();
    writeFileSync(
      `${root}/conf/10-drawbridge.conflist`,
      before.replace('"plugins": [', '"plugins": [{"type":"tuning","mtu":1},'),
    );
    await until(() => installation.problems().length > 0, "it is reported");
    assert.match(installation.problems().join(), /^cniChain: .*entry of type "tuning".*another program.*remove one/);
    assert.deepEqual(types(), ["tuning", "drawbridge"]);
    writeFileSync(`${root}/conf/10-drawbridge.conflist`, configuration().replace('{"type":"tuning","mtu":1},', ""));
    await until(() => installation.problems().length === 0, "the problem goes");
    assert.deepEqual(types(), ["drawbridge", "tuning"]);
  });

  it("CHAIN-07: a file that cannot be used is replaced and reported with its copy", async () => {
    const installation = await installed();
    const before = configuration();
    writeFileSync(`${root}/conf/10-drawbridge.conflist`, "torn");
    await until(() => configuration() === before && events.notices.length > 0, "it is replaced and reported");
    await until(() => installation.problems().length === 0, "the problem ends");
    const [notice] = events.notices;
    assert.match(notice?.note ?? "", /10-drawbridge\.conflist: it is not JSON; it is kept as .*\.saved-[0-9a-f]{12}$/);
    assert.equal(linesAbout("it is not JSON"), 1);
  });
});
