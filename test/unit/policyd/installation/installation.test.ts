import assert from "node:assert/strict";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { readConfigurationNames } from "../../../../cli/node/machine/read_files.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { hostFiles } from "../../../../policyd/installation/host_files.ts";
import { Installation, type InstallationParts } from "../../../../policyd/installation/installation.ts";
import { recordingNotices } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import type { ObjectChange } from "../../../../objects/model.ts";
import { listValues } from "../../../support/installation/own_part.ts";
import { PLACE } from "../../../support/node/node_facts.ts";
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

  function start(
    podCidrs: readonly string[] = [],
    mtu: () => number | undefined = () => 1450,
    parts: Partial<InstallationParts> = {},
  ): Installation {
    const installation = new Installation({
      files: hostFiles,
      clock,
      logger,
      events,
      places: { source: `${root}/source`, binaries: `${root}/bin`, configurations: `${root}/conf` },
      nodeName: "n1",
      podCidrs: podCidrs.map((text) => parseCidr(text)),
      network: { bridge: "drawbridge0", socketPath: "/run/drawbridge/policyd.sock", stateDirectory: "/run/drawbridge" },
      chain: [],
      primary: undefined,
      mtu,
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

  it("POD-17: the configuration is written when objects are read, rules are in force and the Node has pod CIDRs", async () => {
    const installation = start();
    await until(isPluginThere, "the plugin is there");
    installation.apply(node("n1", ["10.244.1.0/24"]));
    await aWhile();
    assert.equal(configuration(), "", "not all objects are read yet");
    installation.synced();
    await aWhile();
    assert.equal(configuration(), "", "the rules are not in force yet");
    installation.apply(node("n1", []));
    installation.rulesInForce();
    await until(() => installation.problems().length > 0, "the problem is reported");
    await aWhile();
    assert.equal(configuration(), "");
    assert.match(installation.problems().join(), /Node n1 has no spec\.podCIDRs.*--allocate-node-cidrs/);
    assert.equal(linesAbout("has no spec.podCIDRs"), 1);
    assert.deepEqual(
      events.notices.map(({ regarding, reason }) => [regarding.kind, regarding.key, reason]),
      [["Node", "n1", "InstallationProblem"]],
    );
    assert.match(events.notices[0]?.note ?? "", /^Node n1 has no spec\.podCIDRs.*--allocate-node-cidrs/);
    assert.equal(installation.isInstalled, false);
    installation.apply(node("n1", ["10.244.1.0/24", "fd00:244:1::/64"]));
    await until(() => installation.isInstalled, "it is installed");
    assert.match(configuration(), /"10\.244\.1\.0\/24".*"fd00:244:1::\/64"/s);
    assert.deepEqual(installation.problems(), []);
  });

  async function installed(cidrs: readonly string[], mtu?: () => number | undefined): Promise<Installation> {
    const installation = start([], mtu);
    installation.apply(node("n1", cidrs));
    installation.synced();
    installation.rulesInForce();
    await until(() => installation.isInstalled, "it is installed");
    return installation;
  }

  it("POD-17: the installation keeps the pods' ranges until the daemon starts again, whatever happens to the Node", async () => {
    const installation = await installed(["10.244.1.0/24"]);
    const before = configuration();
    installation.apply(node("n1", ["10.244.7.0/24"]));
    await until(() => installation.problems().length > 0, "the change is reported");
    assert.match(
      installation.problems().join(),
      /10\.244\.7\.0\/24 now; pods get addresses of 10\.244\.1\.0\/24 until.*drain/,
    );
    installation.apply([{ type: "delete", kind: "Node", key: "n1" }]);
    await until(
      () => installation.problems().some((problem) => problem.includes("no Node object")),
      "the missing Node is reported, too",
    );
    assert.equal(configuration(), before);
    await installation.stop();
    await installed(["10.244.7.0/24"]);
    assert.match(configuration(), /10\.244\.7\.0/);
  });

  it("D6: removed and changed files are restored after the directory's notification, and the repair is logged", async () => {
    const installation = await installed(["10.244.1.0/24"]);
    const before = configuration();
    const harms: readonly (() => void)[] = [
      () => rmSync(`${root}/bin`, { recursive: true }),
      () => rmSync(`${root}/conf/10-drawbridge.conflist`),
      () => writeFileSync(`${root}/conf/10-drawbridge.conflist`, "{}"),
      () => rmSync(`${root}/bin/drawbridge`),
      () => rmSync(`${root}/conf`, { recursive: true }),
    ];
    for (const [index, harm] of harms.entries()) {
      await aWhile();
      harm();
      // Ten milliseconds per step are far less than the time until the next periodic check.
      await until(() => isPluginThere() && configuration() === before, `harm ${index} is repaired`, 10);
      await until(() => linesAbout("again: another program") === index + 1, "the repair is logged", 10);
    }
    assert.equal(installation.isInstalled, true);
  });

  it("D7: while no objects can be read, the plugin is restored and an earlier configuration stays", async () => {
    const installation = await installed(["10.244.1.0/24"]);
    const before = configuration();
    await installation.stop();
    assert.equal(configuration(), before, "the configuration stays when the daemon ends");
    rmSync(`${root}/bin`, { recursive: true });
    start();
    await until(isPluginThere, "the plugin is there");
    await aWhile();
    assert.equal(configuration(), before);
  });

  it("D5: another add-on's configuration that runtimes use instead is reported for as long as it is there", async () => {
    const installation = await installed(["10.244.1.0/24"]);
    writeFileSync(`${root}/conf/05-other.conflist`, "{}");
    await until(() => installation.problems().length > 0, "the other configuration is reported");
    assert.match(installation.problems().join(), /05-other\.conflist comes before 10-drawbridge\.conflist/);
    assert.deepEqual(readdirSync(`${root}/conf`).sort(), ["05-other.conflist", "10-drawbridge.conflist"]);
    rmSync(`${root}/conf/05-other.conflist`);
    await until(() => installation.problems().length === 0, "the problem ends");
  });

  const types = (): readonly unknown[] => listValues(configuration()).plugins.map(({ type }) => type);

  async function installedWith(parts: Partial<InstallationParts>): Promise<Installation> {
    const installation = start([], undefined, parts);
    installation.apply(node("n1", ["10.244.1.0/24"]));
    installation.synced();
    installation.rulesInForce();
    await until(() => installation.isInstalled, "it is installed");
    return installation;
  }

  it("CHAIN-04: an entry that cniChain no longer has is removed from the list that the previous daemon wrote", async () => {
    const chain = [{ type: "portmap", capabilities: { portMappings: true } }, { type: "tuning" }];
    const first = await installedWith({ chain });
    assert.deepEqual(types(), ["drawbridge", "portmap", "tuning"]);
    assert.equal(linesAbout('"portMappings"'), 1, "the log says that portmap forwards host ports");
    await first.stop();
    await installedWith({ chain: chain.slice(1) });
    assert.deepEqual(types(), ["drawbridge", "tuning"]);
  });

  it("CHAIN-04: another program's entry of the same type as one in cniChain is reported until one of the two is gone", async () => {
    const installation = await installedWith({ chain: [{ type: "tuning" }] });
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

  it("CHAIN-06: a first configuration that leads to ours or is declared is accepted, and another one is a problem", async () => {
    const installation = await installedWith({ primary: "01-declared.conf" });
    const file = (name: string): string => `${root}/conf/${name}`;
    writeFileSync(file("01-declared.conf"), "whatever");
    await aWhile();
    assert.deepEqual(installation.problems(), []);
    const list: unknown = JSON.parse(configuration());
    writeFileSync(file("00-multus.conf"), JSON.stringify({ name: "multus", type: "multus-shim", delegates: [list] }));
    await aWhile();
    assert.deepEqual(installation.problems(), []);
    writeFileSync(file("00-multus.conf"), '{ "name": "multus", "type": "multus-sh');
    await until(() => installation.problems().length > 0, "a file that stays torn is reported");
    assert.match(installation.problems().join(), /00-multus\.conf comes before .*cniPrimary/);
    writeFileSync(file("00-multus.conf"), '{ "type": "multus", "clusterNetwork": "drawbridge" }');
    await until(() => installation.problems().length === 0, "the problem goes");
    writeFileSync(file("00-multus.conf"), '{ "type": "multus", "delegates": [{ "type": "flannel" }] }');
    await until(() => installation.problems().length > 0, "a delegate of others is reported");
  });

  it("CHAIN-06: a directory with a configuration's name is ignored, and any other file that runtimes would read is a problem", async () => {
    const installation = await installed(["10.244.1.0/24"]);
    mkdirSync(`${root}/conf/00-backup.conflist`);
    await aWhile();
    assert.deepEqual(installation.problems(), []);
    // libcni tries to read the link, so the runtime loads no network.
    symlinkSync("00-backup.conflist", `${root}/conf/01-link.conf`);
    await until(() => installation.problems().length > 0, "a link to a directory is reported");
    assert.match(installation.problems().join(), /01-link\.conf comes before/);
    assert.deepEqual(readConfigurationNames({ ...PLACE, configurationDirectory: `${root}/conf` }), [
      "01-link.conf",
      "10-drawbridge.conflist",
    ]);
  });

  it("CHAIN-07: a file that cannot be used is replaced and reported with its copy", async () => {
    const installation = await installed(["10.244.1.0/24"]);
    const before = configuration();
    writeFileSync(`${root}/conf/10-drawbridge.conflist`, "torn");
    await until(() => configuration() === before && events.notices.length > 0, "it is replaced and reported");
    await until(() => installation.problems().length === 0, "the problem ends");
    const [notice] = events.notices;
    assert.match(notice?.note ?? "", /10-drawbridge\.conflist: it is not JSON; it is kept as .*\.saved-[0-9a-f]{12}$/);
    assert.equal(linesAbout("it is not JSON"), 1);
  });

  it("D5: a failed installation is retried with growing pauses and succeeds when the obstacle is gone", async () => {
    writeFileSync(`${root}/bin`, "a file");
    const installation = start(["10.244.1.0/24"]);
    installation.synced();
    installation.rulesInForce();
    await until(() => installation.problems().length > 0, "the failure is reported");
    assert.match(installation.problems().join(), /plugin not installed: cannot .*bin/);
    await aWhile();
    assert.equal(linesAbout("plugin not installed"), 1);
    assert.equal(configuration(), "", "no configuration without a plugin");
    rmSync(`${root}/bin`);
    await until(() => configuration() !== "", "it is installed", 1000);
    await until(() => installation.problems().length === 0, "the problem ends");
  });

  it("D5: the configuration waits for the MTU, and follows a new MTU at once", async () => {
    let mtu: number | undefined;
    const installation = start(["10.244.1.0/24"], () => mtu);
    installation.synced();
    installation.rulesInForce();
    await until(() => installation.problems().length > 0, "the missing MTU is reported");
    await aWhile();
    assert.match(installation.problems().join(), /^MTU of pods is not known: .*first InternalIP of Node n1/);
    assert.equal(configuration(), "");
    mtu = 1450;
    installation.mtuChanged();
    await until(() => configuration() !== "", "it is there");
    assert.match(configuration(), /"mtu": 1450/);
    await until(() => installation.isInstalled, "it is installed");
    await aWhile();
    mtu = 1430;
    installation.mtuChanged();
    // Ten milliseconds per step are far less than the time until the next periodic check.
    await until(() => configuration().includes('"mtu": 1430'), "the new one is there", 10);
    assert.equal(linesAbout("again: another program"), 0);
  });
});
