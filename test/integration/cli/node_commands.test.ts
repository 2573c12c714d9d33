import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import { carryOut } from "../../../cli/node/cleanup/carry_out.ts";
import { cleanupPlan } from "../../../cli/node/cleanup/plan.ts";
import { type Finding, diagnose } from "../../../policyd/problems/diagnose.ts";
import { CHECKS } from "../../../cli/node/doctor/checks.ts";
import { expectation } from "../../../cli/node/doctor/expectation.ts";
import type { NodePlace } from "../../../cli/node/place.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { networkConfiguration } from "../../../policyd/installation/configuration_list.ts";
import { add, DRAWBRIDGE } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { BREAKAGES, confOf, REPAIRED } from "../../support/node/breakages.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { until } from "../../support/until.ts";

const MTU = 1420;
const RANGES = ["10.244.1.0/24", "fd00:244:1::/64"];

describe("cli/node on a node of a lab", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let place: NodePlace;

  before(function () {
    requireKernel(this);
  });

  /** Makes a lab, and what an installation leaves on its node before a daemon runs. */
  function prepare(): void {
    lab = createLab("node-commands");
    ({ node1: wired } = twoNodes(lab, { mtu: MTU }));
    policyd = new PolicydNode(lab, wired);
    const { node } = wired;
    place = {
      configurationDirectory: `${lab.scratch}/net.d`,
      binaryDirectory: `${lab.scratch}/bin`,
      dataDirectory: node.dataDir,
      stateDirectory: node.runDir,
      socket: `${lab.scratch}/policyd-${node.name}/run/policyd.sock`,
      bridge: "cni0",
      flowDirectory: `${lab.scratch}/flows`,
      networkNamespace: undefined,
    };
    for (const directory of [place.configurationDirectory, place.binaryDirectory]) mkdirSync(directory);
  }

  const cleanUp = (): void => lab?.destroy();

  /** Puts on the node what an installation puts there. */
  async function install(): Promise<void> {
    // This is the default without a configuration, which the doctor does not have either.
    await policyd.start(["--encapsulation=auto"]);
    const parts = { bridge: "cni0", socketPath: place.socket, stateDirectory: place.stateDirectory, mtu: MTU };
    const text = networkConfiguration({ ...parts, ranges: RANGES.map((range) => parseCidr(range)) });
    writeFileSync(confOf(place), text);
    copyFileSync(DRAWBRIDGE, `${place.binaryDirectory}/drawbridge`);
    for (const name of ["drawbridge-ipam", "loopback"]) symlinkSync("drawbridge", `${place.binaryDirectory}/${name}`);
    assert.equal(add(wired, lab.pod("a"), policyd.overrides).error, undefined);
  }

  function diagnosis(isWhole = true, where = place): ReturnType<typeof diagnose> {
    const machine = systemMachine(lab.calls);
    const flags = { nodeName: { value: "node", where: "test" }, bridge: { value: place.bridge, where: "test" } };
    const expected = expectation(readConfiguration(undefined, flags));
    const trialTables = isWhole ? expected.trialTables : [];
    const ofRelease = { ...expected, trialTables, sourceDirectory: path.dirname(DRAWBRIDGE) };
    const facts = wired.node.inside(() => machine.readFacts(where, ofRelease));
    return diagnose(facts, CHECKS);
  }

  /** Returns the doctor's findings. @param isWhole whether the kernel checks the daemon's tables, for a second */
  function findings(isWhole = true): readonly Finding[] {
    const { findings: found, unseen } = diagnosis(isWhole);
    assert.deepEqual(unseen, []);
    return found;
  }

  describe("with an installation, whose daemon the last two tests kill", () => {
    before(async () => {
      prepare();
      await install();
    });
    after(cleanUp);

    it("DOCTOR-01: the doctor finds nothing on a healthy node, and each breakage by its check and by no other", async () => {
      assert.deepEqual(findings(), []);
      for (const { name, check, text, breaks, mends } of BREAKAGES) {
        breaks(wired.node, place);
        const found = findings(false);
        mends(wired.node, place);
        assert.deepEqual([...new Set(found.map((one) => one.check))], [check], `${name}: ${JSON.stringify(found)}`);
        assert.match(found[0]?.what ?? "", text, name);
      }
    });

    it("DOCTOR-02: where the address store is elsewhere, as in a container, the doctor does not check it, and says so", async () => {
      const { findings: found, unseen } = diagnosis(false, {
        ...place,
        dataDirectory: `${place.dataDirectory}-elsewhere`,
      });
      assert.deepEqual(found, []);
      assert.deepEqual(
        unseen.map(({ check }) => check),
        ["addresses"],
      );
      assert.match(unseen[0]?.reason ?? "", /has no reservation, though pods are attached: look on the node itself/);
    });

    it("DOCTOR-01: the doctor finds faults that the daemon would repair while no daemon runs", async () => {
      await policyd.kill();
      for (const { name, check, text, breaks, mends } of REPAIRED) {
        breaks(wired.node, place);
        const found = findings(false).filter((one) => one.check !== "daemon");
        mends(wired.node, place);
        assert.ok(
          found.some((one) => one.check === check && text.test(one.what)),
          `${name}: ${JSON.stringify(found)}`,
        );
        assert.deepEqual(
          found.filter((one) => one.check !== check && one.check !== "node-state"),
          [],
          name,
        );
      }
    });

    it("DOCTOR-02: the doctor reports a missing daemon, missing tables and a pod's missing link, checks the rest, and changes nothing", async () => {
      await policyd.kill();
      const [host] = wired.node.links().filter(({ name }) => name.startsWith("dbv"));
      wired.node.exec("ip", ["link", "del", host?.name ?? ""]);
      wired.node.exec("nft", ["flush", "ruleset"]);
      const nftables = wired.node.inside(() => new NftablesSocket(lab.calls));
      const generation = nftables.generation();
      const found = findings();
      assert.equal(nftables.generation(), generation, "the doctor changes nothing");
      nftables.close();
      assert.deepEqual([...new Set(found.map(({ check }) => check))].sort(), ["attachments", "daemon", "tables"]);
      assert.deepEqual(
        found.filter(({ check }) => check === "tables").map(({ what }) => what),
        ["bridge drawbridge", "inet drawbridge", "inet drawbridge-policy"].map(
          (table) => `table ${table} is not loaded`,
        ),
      );
    });
  });

  describe("with a daemon that owns its tables", () => {
    before(prepare);
    after(cleanUp);

    it("DOCTOR-04: a cleanup removes tables whose owner is gone, and reports each table whose owner lives", async function () {
      await policyd.start(["--encapsulation=auto", "--table-owner"]);
      const machine = systemMachine(lab.calls);
      const plan = () => wired.node.inside(() => cleanupPlan(machine.readInventory(place), false));
      await until(
        () => !(plan().removals.filter(({ kind }) => kind === "table").length < 3),
        () => `tables: not there: ${wired.node.ruleset()}`,
      );
      const { removals } = plan();
      const tables = removals.filter(({ kind }) => kind === "table");
      assert.equal(tables.length, 3);
      const refused = wired.node.inside(() => carryOut(machine, tables));
      assert.ok(
        refused.every(({ failure }) => /another process owns the table/.test(failure ?? "")),
        JSON.stringify(refused),
      );
      await policyd.kill();
      const outcomes = wired.node.inside(() => carryOut(machine, removals));
      assert.deepEqual(
        outcomes.filter(({ failure }) => failure !== undefined),
        [],
      );
      assert.equal(wired.node.ruleset(), "");
    });
  });
});
