import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import type { AuditReport } from "../../../cli/node/audit/print.ts";
import { auditNode } from "../../../cli/node/audit/run.ts";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import type { NodePlace } from "../../../cli/node/place.ts";
import { sha256 } from "../../../cli/node/cleanup/attached.ts";
import { delayDeviceMac } from "../../../attachment/names_and_macs.ts";
import { add, type CallOutcome, check, type Configuration, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { mapping, published } from "../../support/host_ports/published.ts";
import { withoutPortShares } from "../../support/nftables/listing.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { nodeState } from "../../support/cni/kernel_state.ts";
import { until } from "../../support/until.ts";

for (const hasDaemon of [false, true]) {
  describe(`an audit of a node ${hasDaemon ? "with" : "without"} policyd`, function () {
    this.timeout(120_000);
    let lab: Lab;
    let wired: WiredNode;
    let policyd: PolicydNode | undefined;
    let place: NodePlace;

    before(async function () {
      lab = suiteLab(this, `audit${hasDaemon ? "-policyd" : ""}`);
      wired = twoNodes(lab).node1;
      policyd = hasDaemon ? new PolicydNode(lab, wired) : undefined;
      await policyd?.start();
      place = {
        configurationDirectory: `${lab.scratch}/net.d`,
        binaryDirectory: `${lab.scratch}/bin`,
        dataDirectory: wired.node.dataDir,
        stateDirectory: wired.node.runDir,
        socket: policyd?.socketPath ?? `${lab.scratch}/no.sock`,
        bridge: "cni0",
        flowDirectory: `${lab.scratch}/flows`,
        networkNamespace: undefined,
      };
      for (const directory of [place.configurationDirectory, place.binaryDirectory]) mkdirSync(directory);
    });

    const audit = (isRepaired = false): AuditReport =>
      wired.node.inside(() => auditNode(systemMachine(lab.calls), place, isRepaired));

    const attach = (pod: LabPod, wish: Configuration = {}): CallOutcome =>
      add(wired, pod, { ...policyd?.overrides, ...wish });

    const listing = (): string => withoutPortShares(wired.node.ruleset()).replaceAll(/packets \d+ bytes \d+/g, "");

    async function end(pod: LabPod): Promise<void> {
      const links = (): number => nodeState(wired.node).podLinks.length;
      const before = links();
      lab.remove(pod);
      await until(() => links() < before, "the kernel has removed the link", 20_000);
    }

    /** Makes a reservation as a killed ADD leaves it. */
    function reserve(address: string, containerId: string, isOld = true): void {
      const file = `${wired.node.dataDir}/drawbridge/${address}`;
      writeFileSync(file, `${containerId}\r\neth0`);
      if (isOld) utimesSync(file, new Date(Date.now() - 120_000), new Date(Date.now() - 120_000));
    }

    const kinds = ({ outcomes }: AuditReport): readonly string[] =>
      [...new Set(outcomes.map(({ leak }) => leak.kind))].toSorted();

    /** Returns the files of state and store, without the daemon's marks of ended sandboxes: it writes them at its own time. */
    const files = (): readonly string[] =>
      [wired.node.runDir, `${wired.node.dataDir}/drawbridge`]
        .flatMap((directory) => readdirSync(directory, { recursive: true, encoding: "utf8" }).toSorted())
        .filter((name) => !hasDaemon || !/^ended(\/|$)/.test(name));

    it("AUDIT-01: an audit lists leaks of every kind and changes nothing; --repair removes them and touches no running pod", async () => {
      const [alive, gone, broken] = [lab.pod("alive"), lab.pod("gone"), lab.pod("broken")];
      const { result } = attach(alive, { ...published(mapping(7000)), ipMasq: true });
      podResult(attach(gone, { ...published(mapping(7001)), ipMasq: true }));
      podResult(attach(broken));
      assert.deepEqual(audit(), { isRepaired: false, outcomes: [], unseen: [] });
      await end(gone);
      // The record of this pod is from an earlier boot, as it can be when the state directory is on a disk.
      const record = `${wired.node.runDir}/attachments/drawbridge/${broken.containerId}:eth0.json`;
      await policyd?.kill();
      const boot = (JSON.parse(readFileSync(record, "utf8")) as { readonly bootId: string }).bootId;
      writeFileSync(record, readFileSync(record, "utf8").replace(boot, "0b7a3c1e-8a52-4f0e-9a53-5f4f3c5d2f11"));
      await policyd?.start();
      reserve("10.244.1.77", "killed");
      reserve("10.244.1.78", "young", false);
      if (hasDaemon) await until(() => !listing().includes("default/broken"), "the next daemon does not know it");
      const [before, rules, names] = [nodeState(wired.node), listing(), files()];
      const found = audit();
      assert.deepEqual(kinds(found), ["address", "element", "host port", "record"]);
      assert.ok(found.outcomes.some(({ leak }) => leak.what === "7001/tcp"));
      assert.ok(found.outcomes.some(({ leak }) => leak.what === "10.244.1.77"));
      assert.ok(!found.outcomes.some(({ leak }) => leak.what === "10.244.1.78" || leak.what === "10.244.1.2"));
      assert.deepEqual([nodeState(wired.node), listing(), files()], [before, rules, names]);
      const repaired = audit(true);
      assert.deepEqual(
        repaired.outcomes.filter(({ state }) => state !== "repaired"),
        [],
      );
      assert.deepEqual(audit().outcomes, []);
      const after = nodeState(wired.node);
      assert.deepEqual(after.reservations, ["10.244.1.2", "10.244.1.78", "fd00:244:1::2"]);
      assert.deepEqual([after.records.length, after.podLinks.length], [1, 1]);
      await until(() => !/default\/(gone|broken)|7001/.test(listing()), "their elements are gone");
      assert.match(listing(), /7000/);
      assert.equal(
        check(wired, alive, result, { ...policyd?.overrides, ...published(mapping(7000)), ipMasq: true }).error,
        undefined,
      );
      assert.equal(del(wired, alive, { ...policyd?.overrides, ipMasq: true }).exitCode, 0);
      rmSync(`${wired.node.dataDir}/drawbridge/10.244.1.78`);
    });

    it("AUDIT-01: pods that come and go get all that they ask for while the node is audited and repaired again and again", async () => {
      const wish = { ...policyd?.overrides, ipMasq: true };
      const stays = lab.pod("stays");
      podResult(attach(stays, { ...published(mapping(7050)), ipMasq: true }));
      const before = nodeState(wired.node);
      const pods = [0, 1, 2].map((number) => lab.pod(`p${number}`));
      const state = { isRunning: true };
      let audits = 0;
      const calls = pods.map(async (pod, number) => {
        for (let round = 0; round < 5; round++) {
          const ports = published(mapping(7100 + number));
          const added = await startPlugin(wired.node, podCall("ADD", wired, pod, { ...wish, ...ports })).outcome;
          assert.equal(added.error, undefined);
          const checked = podCall("CHECK", wired, pod, { ...wish, ...ports, prevResult: added.result });
          assert.equal((await startPlugin(wired.node, checked).outcome).error, undefined);
          const deleted = await startPlugin(wired.node, podCall("DEL", wired, pod, wish)).outcome;
          assert.equal(deleted.exitCode, 0);
        }
      });
      const done = Promise.all(calls).finally(() => (state.isRunning = false));
      const seenLeaks = new Set<string>();
      while (state.isRunning) {
        for (const { leak } of audit(true).outcomes) seenLeaks.add(`${leak.kind} ${leak.what}: ${leak.why}`);
        audits++;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      await done;
      assert.ok(audits > 10, `${audits} audits`);
      assert.deepEqual([...seenLeaks], []);
      assert.deepEqual(audit().outcomes, []);
      assert.deepEqual(nodeState(wired.node), before);
      assert.equal(del(wired, stays, wish).exitCode, 0);
    });

    // No daemon runs when a record is lost.
    if (!hasDaemon) {
      it("AUDIT-01: --repair leaves a link without a record and its addresses, also where no process has the sandbox's name, and removes a device without a link", async () => {
        podResult(attach(lab.pod("unrecorded")));
        rmSync(`${wired.node.runDir}/attachments`, { recursive: true });
        for (const entry of readdirSync(`${wired.node.dataDir}/drawbridge`)) {
          utimesSync(`${wired.node.dataDir}/drawbridge/${entry}`, 0, 0);
        }
        const before = nodeState(wired.node);
        const device = "dbi000000000001";
        const mac = delayDeviceMac(sha256, device);
        wired.node.exec("ip", ["link", "add", device, "address", mac, "type", "ifb"]);
        const found = audit(true).outcomes.map(({ leak, state }) => `${leak.what}: ${state}`);
        assert.deepEqual(found, [...before.podLinks.map((name) => `${name}: left`), `${device}: repaired`]);
        const { podLinks, reservations } = nodeState(wired.node);
        assert.deepEqual([podLinks, reservations], [before.podLinks, before.reservations]);
      });
    }
  });
}
