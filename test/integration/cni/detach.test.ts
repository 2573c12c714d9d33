import assert from "node:assert/strict";
import { existsSync, mkdirSync, rmSync } from "node:fs";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { deleteLink } from "../../../kernel/route/link.ts";
import { setNeighbour } from "../../../kernel/route/neighbour.ts";
import { add, type CallOptions, type Configuration, del, pluginAs } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { writeForeign } from "../../support/ipam/address_store.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { ipJson, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { requestAll } from "../../lab/namespace.ts";

describe("DEL", function () {
  this.timeout(60_000);
  let lab: Lab;
  let wired: WiredNode;
  const pods: LabPod[] = [];

  before(function () {
    lab = suiteLab(this, "detach");
    wired = twoNodes(lab).node1;
  });

  afterEach(() => {
    if (wired === undefined) return;
    for (const pod of pods.splice(0)) del(wired, pod);
    const bridges = wired.node.links().filter(({ kind }) => kind === "bridge");
    requestAll(
      wired.node.route,
      bridges.map(({ index }) => deleteLink({ index })),
    );
    assert.deepEqual(nodeState(wired.node), nothingHeld, "each test leaves the node as it found it");
  });

  /** Returns a new pod, which is detached after the test. */
  function podOf(name: string): LabPod {
    const pod = lab.pod(`${name}${lab.namespaces.length}`);
    pods.push(pod);
    return pod;
  }

  function linksOf(pod: LabPod): readonly string[] {
    return pod.links().map(({ name }) => name);
  }

  function assertDetached(pod: LabPod, overrides?: Configuration, options?: CallOptions): void {
    const { exitCode, stdout } = del(wired, pod, overrides, options);
    assert.deepEqual([exitCode, stdout], [0, ""]);
  }

  describe("after an ADD that was refused", () => {
    const ipam = (changes: Configuration) => (): Configuration => ({
      ipam: { type: "host-local", dataDir: wired.node.dataDir, ranges: [[{ subnet: "10.244.1.0/24" }]], ...changes },
    });
    const just = (overrides: Configuration) => (): Configuration => overrides;
    const refused: readonly (readonly [name: string, code: number, overrides: () => Configuration, CallOptions?])[] = [
      ["a rate without a burst", 7, just({ runtimeConfig: { bandwidth: { IngressRate: 1000 } } })],
      ["an mtu of another type", 7, just({ mtu: "1500" })],
      ["malformed CNI_ARGS", 4, just({}), { arguments: "garbage" }],
      ["an address outside the ranges", 103, just({}), { arguments: "IP=10.99.0.1" }],
    ];
    for (const [name, code, overrides, options] of refused) {
      it(`DEL with ${name} succeeds, and removes what an ADD with an earlier configuration made`, () => {
        const pod = podOf("a");
        const outcome = add(wired, pod, overrides(), options);
        assert.deepEqual([outcome.exitCode, outcome.error?.code], [1, code], outcome.stdout);
        assertDetached(pod, overrides(), options);
        podResult(add(wired, pod));
        assertDetached(pod, overrides(), options);
        assert.deepEqual(nodeState(wired.node), nothingHeld);
        assert.deepEqual(linksOf(pod), ["lo"]);
      });
    }

    it("DEL as drawbridge-ipam succeeds too, and releases the addresses", () => {
      const pod = podOf("a");
      const executable = pluginAs("drawbridge-ipam", lab.scratch);
      const bad = { ...ipam({ routes: "10.0.0.0/8" })(), mtu: "x" };
      const outcome = add(wired, pod, bad, { executable });
      assert.deepEqual([outcome.exitCode, outcome.error?.code], [1, 7], outcome.stdout);
      assertDetached(pod, bad, { executable });
      assert.equal(add(wired, pod, {}, { executable }).exitCode, 0);
      assert.equal(nodeState(wired.node).reservations.length, 2);
      assertDetached(pod, bad, { executable, arguments: "garbage" });
      assert.deepEqual(nodeState(wired.node), nothingHeld);
    });

    it("B5: DEL leaves the foreign eth0 over which the ADD was refused, however often it is called", () => {
      const pod = podOf("a");
      podResult(add(wired, podOf("other")));
      const held = nodeState(wired.node);
      pod.exec("ip", ["link", "add", "eth0", "type", "veth", "peer", "name", "other-end"]);
      const before = ipJson(pod, "link", "show", "dev", "eth0");
      assert.equal(add(wired, pod).error?.code, 104);
      for (let i = 0; i < 2; i++) assertDetached(pod);
      assert.deepEqual(ipJson(pod, "link", "show", "dev", "eth0"), before);
      assert.deepEqual(nodeState(wired.node), held);
    });
  });

  it("DEL releases the addresses in the dataDir of the ADD when dataDir has changed since", () => {
    const pod = podOf("a");
    podResult(add(wired, pod));
    assert.equal(nodeState(wired.node).reservations.length, 2);
    const elsewhere = `${lab.scratch}/elsewhere`;
    assertDetached(pod, { ipam: { type: "host-local", dataDir: elsewhere, ranges: [[{ subnet: "10.9.0.0/24" }]] } });
    assert.deepEqual(nodeState(wired.node), nothingHeld);
    assert.equal(existsSync(elsewhere), false);
  });

  it("DEL removes the neighbour entries on the bridge of the ADD when bridge has changed since", () => {
    const [pod, other] = [podOf("a"), podOf("b")];
    podResult(add(wired, pod, { bridge: "br-old" }));
    // Without a daemon no packet would reach a pod on a second bridge with the same addresses.
    assert.equal(add(wired, other, { bridge: "br-new" }).error?.code, 101);
    const newBridge = wired.node.link("br-new").index;
    wired.node.route.request(setNeighbour(newBridge, parseAddress("10.244.1.2"), parseMac("02:00:00:00:00:01")));
    const before = nodeState(wired.node, "br-new").neighbours;
    assertDetached(pod, { bridge: "br-new" });
    assert.deepEqual(nodeState(wired.node, "br-old").neighbours, []);
    assert.deepEqual(nodeState(wired.node, "br-new").neighbours, before);
  });

  it("DEL removes the neighbour entries also when the attachment record is lost", () => {
    const pod = podOf("a");
    podResult(add(wired, pod));
    assert.equal(nodeState(wired.node).neighbours.length, 2);
    rmSync(`${wired.node.runDir}/attachments`, { recursive: true });
    assertDetached(pod);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
    assert.deepEqual(linksOf(pod), ["lo"]);
  });

  it("DEL by an old record leaves the entries of the pod that has the record's addresses by now", () => {
    const [pod, heir] = [podOf("a"), podOf("b")];
    podResult(add(wired, pod));
    const records = `${wired.node.runDir}/attachments/drawbridge`;
    const kept = `${lab.scratch}/kept`;
    mkdirSync(kept);
    wired.node.exec("cp", ["-r", `${records}/.`, kept]);
    assertDetached(pod);
    podResult(add(wired, heir, { args: { cni: { ips: ["10.244.1.2", "fd00:244:1::2"] } } }));
    wired.node.exec("cp", ["-r", `${kept}/.`, records]);
    const held = nodeState(wired.node);
    assert.equal(held.records.length, 2);
    assertDetached(pod);
    assert.deepEqual(nodeState(wired.node), { ...held, records: [`${heir.containerId}:eth0.json`] });
    assertDetached(heir);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("DEL removes the interface that another plugin made for a reservation, and its neighbour entry", () => {
    const pod = podOf("a");
    podResult(add(wired, podOf("other")));
    const held = nodeState(wired.node);
    const bridge = wired.node.link("cni0").index;
    wired.node.exec("ip", ["link", "add", "veth1234abcd", "type", "veth", "peer", "name", "eth0", "netns", pod.path]);
    writeForeign(`${wired.node.dataDir}/drawbridge/10.244.1.77`, `${pod.containerId}\r\neth0`);
    wired.node.route.request(setNeighbour(bridge, parseAddress("10.244.1.77"), parseMac("02:00:00:00:00:01")));
    assertDetached(pod);
    assert.deepEqual(nodeState(wired.node), held);
    assert.deepEqual(linksOf(pod), ["lo"]);
  });
});
