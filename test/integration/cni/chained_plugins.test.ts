import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, watch, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { createLab, type Lab } from "../../lab/lab.ts";
import { twoNodes, UPLINK, type WiredNode } from "../../lab/topology.ts";
import { Istio, Linkerd, Multus } from "../../support/installation/other_programs.ts";
import { listValues } from "../../support/installation/own_part.ts";
import { configured, type DaemonProcess, installing } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";

const LIST = "10-drawbridge.conflist";

describe("the daemon and other plugins in its list", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let directory = "";
  let istio: Istio;
  let linkerd: Linkerd;
  let multus: Multus;

  beforeEach(function () {
    requireKernel(this);
    lab = createLab("policyd-chained");
    ({ node1: wired } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
    directory = `${lab.scratch}/host`;
    mkdirSync(`${directory}/conf`, { recursive: true });
    istio = new Istio(`${directory}/conf`);
    linkerd = new Linkerd(`${directory}/conf`);
    multus = new Multus(`${directory}/conf`);
    policyd.put("node.json", JSON.stringify(nodeOf(wired)));
    mkdirSync(`${directory}/bin`);
    for (const name of ["istio-cni", "linkerd-cni", "tuning"])
      writeFileSync(`${directory}/bin/${name}`, "", { mode: 0o755 });
  });
  afterEach(async () => {
    for (const program of [istio, linkerd, multus]) await program?.stop();
    await policyd?.kill();
    lab?.destroy();
  });

  const place = (): string => `${directory}/conf/${LIST}`;
  const types = (): readonly unknown[] => {
    try {
      return listValues(readFileSync(place(), "utf8")).plugins.map(({ type }) => type);
    } catch {
      return [];
    }
  };
  const has = (...expected: readonly string[]): boolean =>
    types().map(String).sort().join() === [...expected].sort().join();
  const mtu = (): unknown =>
    listValues(readFileSync(place(), "utf8")).plugins.find(({ type }) => type === "drawbridge")?.["mtu"];
  const writesOf = (daemon: DaemonProcess): number => daemon.log().match(/network configuration written/g)?.length ?? 0;

  async function start(fields: Readonly<Record<string, unknown>> = {}): Promise<DaemonProcess> {
    return await policyd.start([configured(directory, { ...installing(directory), ...fields })]);
  }

  /** Waits until the list has these entries and nobody has changed it for a second. */
  async function settled(daemon: DaemonProcess, ...expected: readonly string[]): Promise<void> {
    let state = "";
    let since = Date.now();
    await daemon.statusWhen(
      ({ problemCount }) => {
        const now = existsSync(place()) ? `${statSync(place()).ino} ${statSync(place()).mtimeMs}` : "";
        if (now !== state || problemCount > 0 || !has(...expected)) since = Date.now();
        state = now;
        return Date.now() - since > 1000;
      },
      `the list has ${expected.join(", ")} and stays; it has ${types().join(", ")}`,
      20,
    );
  }

  it("CHAIN-01 CHAIN-06: entries that istio-cni, linkerd-cni and Multus write after the daemon stay, and the daemon does not write again", async () => {
    const daemon = await start();
    await daemon.statusWhen(() => has("drawbridge"), "the list is there");
    await settled(daemon, "drawbridge");
    const before = writesOf(daemon);
    for (const program of [istio, linkerd, multus]) program.start();
    await settled(daemon, "drawbridge", "istio-cni", "linkerd-cni");
    assert.ok(existsSync(`${directory}/conf/00-multus.conf`));
    assert.deepEqual([writesOf(daemon), before], [before, 1], daemon.log());
    assert.ok(istio.writes + linkerd.writes < 10, `${istio.writes} and ${linkerd.writes} writes`);
    wired.node.exec("ip", ["link", "set", UPLINK, "mtu", "1400"]);
    await daemon.statusWhen(() => types().length > 0 && mtu() === 1400, "our entry follows the network's MTU");
    await settled(daemon, "drawbridge", "istio-cni", "linkerd-cni");
    assert.equal(mtu(), 1400);
    for (const program of [istio, linkerd, multus]) await program.stop();
    await settled(daemon, "drawbridge");
  });

  it("CHAIN-03: programs that wait for a list get one from a daemon that starts last, and a restart of the daemon changes nothing", async () => {
    for (const program of [istio, linkerd, multus]) program.start();
    let daemon = await start({ cniChain: [{ type: "tuning" }] });
    await settled(daemon, "drawbridge", "tuning", "istio-cni", "linkerd-cni");
    assert.deepEqual(types().slice(0, 2), ["drawbridge", "tuning"]);
    const { ino } = statSync(place());
    await policyd.kill();
    daemon = await start({ cniChain: [{ type: "tuning" }] });
    await settled(daemon, "drawbridge", "tuning", "istio-cni", "linkerd-cni");
    assert.equal(statSync(place()).ino, ino);
    assert.equal(writesOf(daemon), 0);
    await policyd.kill();
    daemon = await start();
    await settled(daemon, "drawbridge", "istio-cni", "linkerd-cni");
  });

  it("CHAIN-03: an observer of the directory sees a whole list with our entry at each event while istio-cni and the daemon write at once", async () => {
    const daemon = await start();
    await settled(daemon, "drawbridge");
    let looks = 0;
    const faults: string[] = [];
    const look = (): void => {
      looks++;
      const names = readdirSync(`${directory}/conf`).filter((name) => /\.(conf|conflist|json)$/.test(name));
      if (names.join() !== LIST) faults.push(`names: ${names.join()}`);
      else if (!types().includes("drawbridge")) faults.push(`list: ${readFileSync(place(), "utf8")}`);
    };
    const observer = watch(`${directory}/conf`, look);
    const timer = setInterval(look, 1);
    try {
      istio.start();
      for (let turn = 0; turn < 20; turn++) {
        wired.node.exec("ip", ["link", "set", UPLINK, "mtu", String(1400 + turn)]);
        // The entry of istio-cni drifts, so that istio-cni writes at the same moment as the daemon.
        const text = readFileSync(place(), "utf8");
        writeFileSync(`${directory}/drifted`, text.replace('"info"', '"debug"'));
        renameSync(`${directory}/drifted`, place());
        await pause(Math.random() * 100);
      }
      await settled(daemon, "drawbridge", "istio-cni");
      await daemon.statusWhen(() => mtu() === 1419, "our entry is up to date");
    } finally {
      clearInterval(timer);
      observer.close();
    }
    assert.deepEqual(faults, []);
    assert.ok(looks > 100, String(looks));
  });

  it("CHAIN-03: when a program keeps changing our entry, the daemon logs it once and restores the entry only every few seconds", async () => {
    const daemon = await start();
    await settled(daemon, "drawbridge");
    const theirs = readFileSync(place(), "utf8").replace(/"mtu": \d+/, '"mtu": 9000');
    let fights = 0;
    for (const end = Date.now() + 10_000; Date.now() < end;) {
      if (mtu() !== 9000) {
        fights++;
        writeFileSync(`${directory}/theirs`, theirs);
        renameSync(`${directory}/theirs`, place());
      }
      await pause(5);
    }
    assert.ok(fights >= 4 && fights <= 8, `${fights} times in 10 s`);
    assert.equal(daemon.log().match(/another program keeps changing our entry/g)?.length, 1);
    await daemon.statusWhen(({ problems }) => problems.join().includes("keeps changing"), "it is in the status");
    await daemon.statusWhen(() => mtu() !== 9000, "our entry is back after the program has stopped", 30);
  });
});
