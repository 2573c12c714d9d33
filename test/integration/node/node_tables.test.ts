import assert from "node:assert/strict";
import { cpSync, mkdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { acquireFileLock } from "../../../kernel/file_lock.ts";
import { listAddresses } from "../../../kernel/route/interface_address.ts";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { bridgeTable, ipTable } from "../../../cni/node_rules/node_tables.ts";
import { openConntrackSocket } from "../../../kernel/conntrack/table.ts";
import { listEntries } from "../../support/list_entries.ts";
import { formatTable } from "../../../kernel/nftables/text/text.ts";
import { add, type CallOutcome, type Configuration, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { addressesIn, assertMasquerade } from "../../support/host_ports/masquerade.ts";
import { overlaps } from "../../support/host_ports/overlaps.ts";
import { everything, mapping, PORT, published } from "../../support/host_ports/published.ts";
import { UdpClient } from "../../support/host_ports/udp_client.ts";
import { testLab } from "../../support/suite_lab.ts";
import { normalListing } from "../../support/nftables/listing.ts";
import { hostInterfaceOf, podResult } from "../../support/cni/add_result.ts";
import { addressesOf, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { roundsFor } from "../../support/long_form.ts";

const KILLS = roundsFor("kills", 12, 200);
/** A time after which all calls wait at the lock. */
const LOCKED_MILLISECONDS = 300;

describe("the node's tables of a plugin without policyd", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let wired: WiredNode;
  let counter = 0;

  beforeEach(function () {
    lab = testLab(this, "tables");
    nodes = twoNodes(lab);
    wired = nodes.node1;
  });

  const listing = (): string => wired.node.ruleset();

  /** Returns the comments of all elements, one for each. */
  const owners = (): readonly string[] => [...listing().matchAll(/comment "(dbv[^"]*)"/g)].map(([, text = ""]) => text);

  const rules = (): readonly string[] =>
    listing()
      .split("\n")
      .filter((line) => /\b(dnat|masquerade|return|drop|goto)\b/.test(line));

  function assertDetached(pod: LabPod, overrides: Configuration, netns?: string): void {
    const { exitCode, stdout } = del(wired, pod, overrides, netns === undefined ? {} : { netns });
    assert.deepEqual([exitCode, stdout], [0, ""]);
  }

  it("the first pod that needs the tables makes them as the kernel lists them, and more pods add no rule", () => {
    podResult(add(wired, lab.pod("plain")));
    assert.equal(listing(), "");
    podResult(add(wired, lab.pod("first"), everything));
    const before = rules();
    for (const [table, text] of [ipTable, bridgeTable].map((own) => [own, formatTable(own, new Map())] as const)) {
      const [chains] = normalListing(wired.node.exec("nft", ["-y", "list", "table", table.family, table.name])).split(
        "\nchain",
      );
      const [expected] = normalListing(text).split("\nchain");
      assert.equal(chains?.replaceAll(/\nelements = \{[^}]*\}/g, ""), expected);
      for (const line of text.split("\n").filter((one) => /\b(dnat|masquerade)\b/.test(one))) {
        assert.ok(wired.node.ruleset("-y").includes(line.trim()), line);
      }
    }
    for (let i = 0; i < 3; i++) {
      podResult(add(wired, lab.pod(`p${i}`), { ...everything, ...published(mapping(7001 + i)) }));
    }
    assert.deepEqual(rules(), before);
    assert.ok(owners().length > 12);
  });

  it("B11 B12: the tables hold nothing of a pod after its DEL, also when its namespace or its record is gone", () => {
    const [stays, goes, lost] = [lab.pod("stays"), lab.pod("goes"), lab.pod("lost")];
    podResult(add(wired, stays, everything));
    const held = owners();
    assert.ok(held.length > 0);
    const second = { ...everything, ...published(mapping(7001)) };
    podResult(add(wired, goes, second));
    assert.ok(owners().length > held.length);
    lab.remove(goes);
    assertDetached(goes, second, goes.path);
    assert.deepEqual(owners(), held);
    podResult(add(wired, lost, second));
    wired.node.exec("rm", [`${wired.node.runDir}/attachments/drawbridge/${lost.containerId}:eth0.json`]);
    assertDetached(lost, {});
    assert.deepEqual(owners(), held);
    for (let i = 0; i < 2; i++) assertDetached(stays, {});
    assert.deepEqual([owners(), nodeState(wired.node)], [[], nothingHeld]);
  });

  it("R6: a pod that asks for another pod's host port is refused with that pod's name, and leaves nothing", () => {
    const { held, taken, free } = overlaps(wired);
    podResult(add(wired, lab.pod("holder"), published(...held)));
    const [before, state] = [normalListing(listing()), nodeState(wired.node)];
    const pod = lab.pod("second");
    for (const wish of taken) {
      const { exitCode, error } = add(wired, pod, published(mapping(7900), wish));
      assert.deepEqual([exitCode, error?.code], [1, 106]);
      assert.match(error?.msg ?? "", /portMappings: host port 700[01]\/tcp.* is held by default\/holder .*-holder;/);
      assert.deepEqual([normalListing(listing()), nodeState(wired.node)], [before, state]);
    }
    podResult(add(wired, pod, published(...free)));
  });

  it("R7: a late DEL takes nothing from the pod that has the port and the address by now", () => {
    const [old, heir] = [lab.pod("old"), lab.pod("heir")];
    podResult(add(wired, old, everything));
    const records = `${wired.node.runDir}/attachments/drawbridge`;
    cpSync(records, `${lab.scratch}/kept`, { recursive: true });
    assertDetached(old, everything);
    podResult(add(wired, heir, { ...everything, args: { cni: { ips: ["10.244.1.2", "fd00:244:1::2"] } } }));
    const held = normalListing(listing());
    mkdirSync(records, { recursive: true });
    cpSync(`${lab.scratch}/kept`, records, { recursive: true });
    assertDetached(old, everything);
    assert.equal(normalListing(listing()), held);
  });

  it("R7: the leftovers of a pod without a DEL do not keep the next pod from getting its address", () => {
    const gone = lab.pod("gone");
    podResult(add(wired, gone, everything));
    wired.node.exec("rm", ["-r", `${wired.node.dataDir}/drawbridge`, `${wired.node.runDir}/attachments`]);
    wired.node.exec("ip", ["link", "del", hostInterfaceNow()]);
    const next = lab.pod("next");
    podResult(add(wired, next, everything));
    // The two elements with the host end's name of the gone pod are left. No other pod can have that name.
    assert.equal(owners().filter((text) => text.includes("default/gone ")).length, 2);
    assertDetached(next, everything);
    assert.equal(owners().length, 2);
    assertDetached(gone, everything);
    assert.deepEqual(owners(), []);
  });

  const hostInterfaceNow = (): string =>
    wired.node.links().find(({ name }) => name.startsWith("dbv"))?.name ?? assert.fail("no host end");

  it("ADD refuses to use a foreign table of our name, and leaves it unchanged", () => {
    for (const family of ["inet", "bridge"]) {
      wired.node.exec("nft", [
        "add",
        "table",
        family,
        "drawbridge-cni",
        '{ comment "drawbridge-cni version 4 of mine" ; }',
      ]);
    }
    const before = listing();
    for (const wish of [published(mapping(7000)), { ipMasq: true }, { macspoofchk: true }]) {
      const pod = lab.pod(`p${++counter}`);
      const { error } = add(wired, pod, wish);
      assert.equal(error?.code, 101, error?.msg);
      assert.match(error?.msg ?? "", /^nftables table (inet|bridge) drawbridge-cni is not ours/);
      assertDetached(pod, wish);
    }
    assert.deepEqual([listing(), nodeState(wired.node)], [before, nothingHeld]);
  });

  it("the plugin replaces a table of another version and keeps its elements", () => {
    const [old, young] = [lab.pod("old"), lab.pod("young")];
    podResult(add(wired, old, everything));
    const now = listing();
    const other = now
      .replaceAll("drawbridge-cni version 4", "drawbridge-cni version 7")
      .replace("ip daddr 127.0.0.0/8 return", "counter");
    assert.notEqual(other, now);
    wired.node.exec("nft", ["-f", "-"], `flush ruleset\n${other}`);
    assertDetached(lab.pod("never"), everything);
    assert.equal(normalListing(listing()), normalListing(other));
    podResult(add(wired, young, { ...everything, ...published(mapping(7001)) }));
    assertDetached(young, everything);
    assert.equal(normalListing(listing()), normalListing(now));
    wired.node.exec("nft", ["-f", "-"], `flush ruleset\n${other}`);
    assertDetached(old, everything);
    assert.deepEqual(owners(), []);
  });

  /**
   * Starts ADDs that wait for a lock, and releases them at the same moment. Started one after the other, the first would
   * make the bridge before the second looks for it.
   */
  async function startAll(
    pods: readonly LabPod[],
    wish: (index: number) => Configuration,
  ): Promise<readonly CallOutcome[]> {
    const gate = `${lab.scratch}/gate`;
    const release = acquireFileLock(lab.calls, gate);
    const launcher = ["flock", "--shared", "--close", gate];
    const calls = pods.map((pod, i) => startPlugin(wired.node, podCall("ADD", wired, pod, wish(i), { launcher })));
    await pause(LOCKED_MILLISECONDS);
    release();
    return Promise.all(calls.map(({ outcome }) => outcome));
  }

  it("B1 B18: 8 ADDs at once on a fresh node make one bridge, one table with all their ports, and different addresses, none of them tentative", async () => {
    const pods = Array.from({ length: 8 }, (_, i) => lab.pod(`p${i}`));
    const outcomes = await startAll(pods, (i) => ({ ...everything, ...published(mapping(7000 + i)) }));
    const unusable = [wired.node, ...pods].flatMap((namespace) =>
      listAddresses(namespace.route).filter(({ tentative, duplicateDetected }) => tentative || duplicateDetected),
    );
    assert.deepEqual(unusable, []);
    const given = outcomes.map((outcome) => podResult(outcome).ips.map(({ address }) => address));
    for (const [i, pod] of pods.entries()) assert.deepEqual(addressesOf(pod, "eth0"), given[i]);
    assert.equal(new Set(given.flat()).size, 16, JSON.stringify(given));
    const links = wired.node.links();
    const bridges = links.filter(({ kind }) => kind === "bridge").map(({ name, index }) => [name, index]);
    assert.deepEqual(bridges, [["cni0", wired.node.link("cni0").index]]);
    assert.equal(links.filter(({ master }) => master === bridges[0]?.[1]).length, 8);
    assert.deepEqual(addressesOf(wired.node, "cni0"), ["10.244.1.1/24", "fd00:244:1::1/64"]);
    const text = formatTable(ipTable, new Map()) + formatTable(bridgeTable, new Map());
    assert.equal(
      rules().length,
      text.split("\n").filter((line) => /\b(dnat|masquerade|return|drop|goto)\b/.test(line)).length,
    );
    for (let i = 0; i < 8; i++) assert.equal(listing().split(`tcp . ${7000 + i} comment`).length, 3);
  });

  it("R6: of 8 ADDs at once with the same host port one gets it, and the others leave nothing", async () => {
    const pods = Array.from({ length: 8 }, (_, i) => lab.pod(`p${i}`));
    const outcomes = await startAll(pods, () => published(mapping(7000)));
    const codes = outcomes.map(({ exitCode, error }) => (exitCode === 0 ? 0 : (error?.code ?? -1)));
    assert.deepEqual(
      codes.toSorted((a, b) => a - b),
      [0, ...Array.from({ length: 7 }, () => 106)],
    );
    const { podLinks, reservations, records } = nodeState(wired.node);
    assert.deepEqual([podLinks.length, reservations.length, records.length], [1, 2, 1]);
    assert.equal(new Set(owners()).size, 1);
  });

  it("an ADD killed at any moment leaves no element that its DEL does not remove", async () => {
    const pod = lab.pod("killed");
    let kills = 0;
    for (let i = 0; i < KILLS; i++) {
      const seconds = ((i % 12) * 0.003 + 0.004).toFixed(3);
      const launcher = ["timeout", "--foreground", "--preserve-status", "--signal=KILL", seconds];
      const { exitCode } = await startPlugin(wired.node, podCall("ADD", wired, pod, everything, { launcher })).outcome;
      if (exitCode !== 0) kills++;
      assertDetached(pod, everything);
      assert.deepEqual([owners(), nodeState(wired.node).reservations], [[], []]);
    }
    assert.ok(kills >= KILLS / 6, `${kills} of ${KILLS} were killed`);
  });

  describe("R2: a client that keeps its UDP port", () => {
    const HOST_PORT = 7053;

    it("reaches the pod once it is there, and the node again when the pod has gone", async () => {
      using prober = new Prober(lab);
      for (const [index, address] of wired.addresses.entries()) {
        const own = wired.routerAddresses[index] ?? assert.fail("no address");
        using client = new UdpClient(nodes.router, own);
        // Nothing listens yet, and conntrack remembers that the flow goes to the node.
        client.send(address, HOST_PORT);
        const pod = lab.pod(`dns${index}`);
        const pods = addressesIn(add(wired, pod, published(mapping(HOST_PORT, "udp"))));
        for (const target of pods) prober.listen("udp", { namespace: pod, address: target, port: PORT });
        assert.equal(await client.ask(prober, address, HOST_PORT), "answered");
        assertDetached(pod, {});
        prober.listen("udp", { namespace: wired.node, address, port: HOST_PORT });
        assert.equal(await client.ask(prober, address, HOST_PORT), "answered");
      }
    });

    it("keeps its flow through the node to that port of another host or to a Service when a pod gets the host port", () => {
      const service = parseAddress("10.96.0.7");
      wired.node.exec("ip", ["addr", "add", formatAddress(service), "dev", "lo"]);
      const destinations = [nodes.node2.addresses[0], service];
      const pod = lab.pod("client");
      const [own] = addressesIn(add(wired, pod, { ipMasq: true }));
      assert.ok(own !== undefined);
      using through = new UdpClient(pod, own);
      for (const address of destinations) through.send(address, HOST_PORT, 1);
      const conntrack = wired.node.inside(() => openConntrackSocket(lab.calls));
      const flows = (): readonly number[] =>
        destinations.flatMap((destination) =>
          listEntries(conntrack, { original: { source: own } }).flatMap(({ id, original }) =>
            original.destination === destination ? id : [],
          ),
        );
      const before = flows();
      assert.equal(before.length, 2);
      const serviceCIDRs = ["10.96.0.0/12"];
      podResult(add(wired, lab.pod("dns"), { ...published(mapping(HOST_PORT, "udp")), serviceCIDRs }));
      assert.deepEqual(flows(), before);
      conntrack.close();
    });
  });

  it("POD-19 B11 DS-03: packets of pods leave with the node's address, but not to pods of the configuration's ranges", async () => {
    await assertMasquerade(lab, nodes, {});
    assert.deepEqual(owners(), []);
  });

  it("B12: a frame from another MAC address than the pod's is dropped and counted", async () => {
    using prober = new Prober(lab);
    const seen = async (pod: LabPod): Promise<readonly boolean[]> => {
      const flows = wired.gateways.map(
        (address) => ({ protocol: "udp", from: pod, to: { address, port: PORT } }) as const,
      );
      return (await prober.run(flows, { timeoutMilliseconds: 400 })).map(({ seenBy }) => seenBy === wired.node);
    };
    const dropped = (): number => Number(/counter packets (\d+) .* drop/.exec(listing())?.[1] ?? -1);
    const [checked, free] = [lab.pod("checked"), lab.pod("free")];
    const result = podResult(add(wired, checked, { macspoofchk: true }));
    podResult(add(wired, free));
    for (const address of wired.gateways) prober.listen("udp", { namespace: wired.node, address, port: PORT });
    assert.ok(owners().every((text) => text.startsWith(`${hostInterfaceOf(result)} default/checked `)));
    assert.deepEqual([await seen(checked), dropped()], [[true, true], 0]);
    for (const pod of [checked, free]) spoof(pod, "02:00:00:00:00:99");
    assert.deepEqual(await seen(free), [true, true]);
    assert.deepEqual(await seen(checked), [false, false]);
    assert.ok(dropped() >= 2, listing());
    spoof(checked, result.interfaces[2]?.mac ?? "");
    assert.deepEqual(await seen(checked), [true, true]);
    assertDetached(checked, {});
    assert.deepEqual(owners(), []);
  });

  /**
   * Gives a pod's interface another MAC address, and restores the neighbours that the kernel then forgets: their
   * answers would not come.
   */
  function spoof(pod: LabPod, mac: string): void {
    pod.exec("ip", ["link", "set", "eth0", "address", mac]);
    const bridgeMac = wired.node.link("cni0").mac ?? assert.fail("no MAC");
    for (const gateway of wired.gateways) {
      pod.exec("ip", ["neigh", "replace", formatAddress(gateway), "lladdr", bridgeMac, "dev", "eth0"]);
    }
  }
});
