import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { LOOK_MILLISECONDS, PATIENCE_MILLISECONDS } from "../../../policyd/network_condition/network_condition.ts";
import type { PlannedFault } from "../../apiserver/faults.ts";
import { NODES_PATH } from "../../apiserver/node_status.ts";
import { keyOf, type RawObject, recordOf } from "../../apiserver/storage.ts";
import { ApiNode } from "../../support/daemon/api_node.ts";
import { askHttp } from "../../support/http.ts";
import { manifestGrants, overlayGrants } from "../../support/daemon/manifest_grants.ts";
import { testLab } from "../../support/suite_lab.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { valueWhen } from "../../support/until.ts";
import { configured } from "../../support/daemon/policyd.ts";

const OVERLAY = "network-unavailable";
const READY = { type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is posting ready status" };
const UNAVAILABLE = {
  type: "NetworkUnavailable",
  status: "True",
  reason: "NoRouteCreated",
  message: "Node created without a route",
  lastTransitionTime: "2026-11-22T04:30:19Z",
};

/** Returns a Node as a cloud's controller leaves it. */
function nodeObject(name: string, address: string, number: number, conditions: readonly object[]): RawObject {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { zone: "a" }, annotations: { note: "x" } },
    spec: { podCIDRs: [`10.244.${number}.0/24`], taints: [{ key: "node.kubernetes.io/network-unavailable" }] },
    status: { addresses: [{ type: "InternalIP", address }], conditions, nodeInfo: { osImage: "Debian" } },
  };
}

describe("the condition NetworkUnavailable of a node whose objects come from an API server", function () {
  this.timeout(300_000);
  let node: ApiNode;
  let address = "";

  beforeEach(async function () {
    node = new ApiNode(testLab(this, "policyd-netcond"));
    address = formatAddress(node.wired.addresses[0]);
    await node.prepare();
    await node.server.tell({ type: "features", features: { grants: overlayGrants(OVERLAY) } });
    await node.listen();
  });
  function start(clearNetworkUnavailable: boolean): void {
    node.start([`--kubeconfig=${node.kubeconfig()}`, configured(node.directory, { clearNetworkUnavailable })]);
  }

  const apply = (...conditions: readonly object[]): Promise<void> =>
    node.server.apply(nodeObject("node1", address, 1, conditions));

  async function stored(name: string): Promise<RawObject> {
    const { objects = [] } = await node.server.tell({ type: "read", path: NODES_PATH });
    return objects.find((object) => keyOf(object) === name) ?? assert.fail(`no Node ${name}`);
  }

  /** Returns the patches so far, with their URLs and answers. */
  async function patches(): Promise<readonly string[]> {
    const { asked = [] } = await node.server.tell({ type: "asked" });
    return asked.filter(({ verb }) => verb === "patch").map(({ url, status }) => `${url} ${status ?? "no answer"}`);
  }

  async function untilPatches(...expected: readonly (number | string)[]): Promise<void> {
    const all = expected.map((status) => `/api/v1/nodes/node1/status ${status}`);
    await valueWhen(
      patches,
      (found) => found.join() === all.join(),
      (found) => `${found.join("; ")}; expected ${all.join("; ")}\n${node.daemon.log()}`,
    );
  }

  const plan = (...faults: readonly PlannedFault["fault"][]): Promise<unknown> =>
    node.server.tell({ type: "plan", faults: faults.map((fault) => ({ on: "patch", count: 1, fault })) });

  const ask = (path: string) => askHttp(node.wired.node, "127.0.0.1", 10_256, path);

  it("COND-01: the condition is cleared once when the routes are there, and again when it comes back; nothing else changes", async () => {
    const other = nodeObject("node2", "192.0.2.18", 2, [UNAVAILABLE]);
    const own = nodeObject("node1", "192.0.2.200", 1, [UNAVAILABLE, READY]);
    await node.server.apply(other, own);
    start(true);
    await node.daemon.statusWhen(
      ({ problems }) => /192\.0\.2\.200 of this node is on no/.test(problems.join()),
      "routes",
    );
    await node.daemon.statusWhen(() => ask("/readyz").status === 200, "ready but for routes");
    await pause(3 * LOOK_MILLISECONDS);
    assert.deepEqual(await patches(), [], "the node has no routes yet");
    await apply(UNAVAILABLE, READY);
    await untilPatches(200);
    const { metadata, status, ...others } = await stored("node1");
    const [cleared, ...kept] = recordOf(status)["conditions"] as readonly RawObject[];
    const { lastTransitionTime, lastHeartbeatTime, message, ...rest } = cleared ?? {};
    assert.deepEqual(rest, { type: "NetworkUnavailable", status: "False", reason: "RouteCreated" });
    assert.match(String(message), /Drawbridge/);
    assert.equal(lastTransitionTime, lastHeartbeatTime);
    assert.ok(Math.abs(Date.now() - Date.parse(String(lastTransitionTime))) < 120_000, String(lastTransitionTime));
    const before = nodeObject("node1", address, 1, []);
    assert.deepEqual([kept, others], [[READY], { apiVersion: "v1", kind: "Node", spec: before["spec"] }]);
    assert.deepEqual(recordOf(status)["addresses"], recordOf(before["status"])["addresses"]);
    assert.deepEqual(recordOf(metadata)["labels"], { zone: "a" });
    assert.deepEqual(recordOf((await stored("node2"))["status"]), recordOf(other["status"]));
    await apply(UNAVAILABLE, READY);
    await untilPatches(200, 200);
    await pause(3 * LOOK_MILLISECONDS);
    await untilPatches(200, 200);
    assert.doesNotMatch(node.daemon.log(), /the Node says that its network is unavailable/);
  });

  it("COND-02: without the right to clear the condition a daemon says so once, with the way out, and all else works", async () => {
    await node.server.tell({ type: "features", features: { grants: manifestGrants() } });
    await apply(UNAVAILABLE);
    start(true);
    await untilPatches(403);
    const isReported = ({ problems }: { readonly problems: readonly string[] }): boolean =>
      /Node node1: .*403 .*the verb patch on nodes\/status, which manifests\/overlays\/network-unavailable grants/.test(
        problems.join(),
      );
    await node.daemon.statusWhen(isReported, "the problem is reported");
    assert.equal(ask("/readyz").status, 200);
    await pause(3 * LOOK_MILLISECONDS);
    await untilPatches(403);
    assert.equal(node.daemon.log().match(/the Node says that its network is unavailable/g)?.length, 1);
    await apply({ ...UNAVAILABLE, status: "False" });
    await node.daemon.statusWhen((status) => !isReported(status), "another program has cleared it");
  });

  it("COND-02: a patch that hangs does not delay SIGTERM, and after errors the condition is cleared in the end", async () => {
    await apply(UNAVAILABLE);
    await plan({ type: "hang" });
    start(true);
    await untilPatches("no answer");
    assert.deepEqual(await node.daemon.kill("SIGTERM"), { code: 0, signal: null });
    assert.doesNotMatch(node.daemon.log(), /did not stop in time/);
    await plan({ type: "status", status: 500 }, { type: "reset" });
    start(true);
    await untilPatches("no answer", 500, "no answer", 200);
    await node.daemon.statusWhen(({ problems }) => problems.length === 0, "all is well");
  });

  it("COND-02: a condition that nothing clears is reported once with the way out, in the status that the doctor reads", async function () {
    requireLongForm(this, "it takes half a minute");
    await apply(UNAVAILABLE);
    start(false);
    const isReported = ({ problems }: { readonly problems: readonly string[] }): boolean =>
      /apply manifests\/overlays\/network-unavailable/.test(problems.join());
    await node.daemon.statusWhen(isReported, "the problem is reported", (2 * PATIENCE_MILLISECONDS) / 1000);
    assert.equal(node.daemon.log().match(/the Node says that its network is unavailable/g)?.length, 1);
    assert.deepEqual(await patches(), []);
    await apply({ ...UNAVAILABLE, status: "False" });
    await node.daemon.statusWhen((status) => !isReported(status), "it is over");
  });
});
