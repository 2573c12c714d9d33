import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, familyOf, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { listAttachments } from "../../../cni/attachment/attachment.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { type TwoNodes, twoNodes } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { randomFrom } from "../../support/random.ts";
import { type ManifestEndpoint, SERVICE_PORT, serviceManifest, TARGET_PORT } from "../../support/services/manifest.ts";
import { evidenceText, keepResetFlows } from "../../support/services/gap_evidence.ts";
import { type LoadTarget, readReport, SteadyProcess } from "../../support/services/steady_load.ts";

const KILLS = process.env["DRAWBRIDGE_FULL"] === "1" ? 20 : 4;
const FLOWS = 50;
const CONNECTIONS_PER_SECOND = 200;
const CHANGES_PER_SECOND = 20;
const VERSIONS = 200;
const NODE_PORT = 30_080;
/** The file of the Service: JSON is read a hundred times faster than YAML. */
const FILE = "web.json";
const CLUSTER_IPS = ["10.96.0.10", "fd00:96::10"];
const NO_GAP = JSON.stringify({ failures: {}, unanswered: 0, stuck: 0 });

describe("Services while policyd is killed and endpoints change", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  const processes: SteadyProcess[] = [];

  before(function () {
    requireKernel(this);
    lab = createLab("no-gap");
    nodes = twoNodes(lab, { reversePathFilter: 1 });
    policyd = new PolicydNode(lab, nodes.node1);
  });
  after(async () => {
    for (const one of processes) one.kill();
    await policyd?.kill();
    lab?.destroy();
  });

  function attach(name: string, node: "node1" | "node2"): LabPod {
    const pod = lab.pod(name);
    const outcome = add(nodes[node], pod, node === "node1" ? policyd.overrides : {});
    assert.equal(outcome.exitCode, 0, outcome.stdout);
    return pod;
  }

  /** Returns the pods as endpoints, one entry for each address. */
  function endpointsOf(pods: readonly LabPod[], node: "node1" | "node2"): readonly ManifestEndpoint[] {
    const { records } = listAttachments(nodes[node].node.runDir, "drawbridge", systemFileSystem(lab.calls));
    return pods.flatMap(({ containerId }) =>
      records
        .filter((record) => record.containerId === containerId)
        .flatMap(({ addresses }) => addresses.map(({ address }) => ({ address, nodeName: node }))),
    );
  }

  async function begin(...[namespace, args]: Parameters<typeof SteadyProcess.start>): Promise<SteadyProcess> {
    const started = await SteadyProcess.start(namespace, args);
    processes.push(started);
    return started;
  }

  it(`SVC-12: ${FLOWS} flows and ${CONNECTIONS_PER_SECOND} connections a second meet no gap in ${KILLS} daemon ends and ${CHANGES_PER_SECOND} changes a second`, async () => {
    const seed = Date.now() >>> 0;
    console.log(`      seed ${seed}`);
    const random = randomFrom(seed);
    let daemon = await policyd.start();
    const client = attach("client", "node1");
    const near = ["near0", "near1"].map((name) => attach(name, "node1"));
    const far = ["far0", "far1"].map((name) => attach(name, "node2"));
    for (const pod of [...near, ...far]) await begin(pod, ["serve", String(TARGET_PORT)]);
    const endpoints = [...endpointsOf(near, "node1"), ...endpointsOf(far, "node2")];
    const manifest = (list: readonly ManifestEndpoint[]): string =>
      asJson(serviceManifest("web", CLUSTER_IPS, list, {}, NODE_PORT));
    const kernel = nodes.node1.node.inside(() => new NftablesSocket(lab.calls));
    const unserved = kernel.generation();
    policyd.put(FILE, manifest(endpoints));
    await until(() => daemon.status().objects["EndpointSlice"] === 2 && kernel.generation() > unserved);

    keepResetFlows(nodes.node1.node);
    const own = nodes.node1.addresses;
    const targets = (addresses: readonly Address[], port: number): readonly LoadTarget[] =>
      addresses.map((address) => ({ host: formatAddress(address), port }));
    const inside = targets(
      CLUSTER_IPS.map((text) => parseAddress(text)),
      SERVICE_PORT,
    );
    const load = (list: readonly LoadTarget[]): string[] => [
      "load",
      String(FLOWS / 2),
      String(CONNECTIONS_PER_SECOND / 2),
      ...list.flatMap(({ host, port }) => [host, String(port)]),
    ];
    const loads = [await begin(client, load(inside)), await begin(nodes.router, load(targets(own, NODE_PORT)))];
    const texts = Array.from({ length: VERSIONS }, () => manifest(someOf(endpoints, random)));
    writeFileSync(`${lab.scratch}/texts`, texts.join("\0"));
    const churn = await begin(nodes.node1.node, [
      "churn",
      `${lab.scratch}/texts`,
      policyd.pathOf(FILE),
      String(CHANGES_PER_SECOND),
    ]);
    const before = kernel.generation();
    const events: [number, string][] = [];
    const note = (name: string): void => void events.push([Date.now(), name]);
    let seen = before;
    const look = setInterval(() => {
      if (kernel.generation() !== seen) note(`commit ${(seen = kernel.generation())}`);
    }, 5).unref();
    for (let kill = 0; kill < KILLS; kill++) {
      // Most daemons have taken over the tables and made some changes when they end; some are still starting.
      const goal = kernel.generation() + (kill % 4 === 3 ? 0 : 4);
      await until(() => kernel.generation() >= goal);
      await pause(300 * random());
      const signal = kill % 2 === 0 ? "SIGKILL" : "SIGTERM";
      note(signal);
      await daemon.kill(signal);
      await pause(300 * random());
      note("a start");
      daemon = await policyd.start(kill % 4 < 2 ? ["--min-sync-period=0s"] : []);
    }
    const last = kernel.generation();
    await until(() => kernel.generation() >= last + 4);
    // Changes are in force within milliseconds, so the kills take little time: the load goes on to reach its number.
    await pause(KILLS * 500);
    const changes = Number(await churn.end());
    const commits = kernel.generation() - before;
    clearInterval(look);
    kernel.close();
    const reports = await Promise.all(loads.map(async (one) => readReport(await one.end())));
    for (const { exchanges, failed: _, ...report } of reports) {
      console.log(`      ${JSON.stringify({ ...report, leastExchanges: Math.min(...exchanges) })}`);
    }
    console.log(`      ${changes} changes, ${commits} commits`);
    const evidence = {
      node: nodes.node1.node,
      others: [nodes.node2.node, nodes.router, client, ...near, ...far],
      events,
    };
    for (const { failures, failed, unanswered, stuck, opened, answered, exchanges } of reports) {
      const gaps = JSON.stringify({ failures, unanswered, stuck });
      if (gaps !== NO_GAP) assert.fail(`${gaps}\n${evidenceText(failed, evidence)}`);
      assert.equal(answered, opened);
      assert.ok(opened > KILLS * 100 && Math.min(...exchanges) > KILLS, `${opened} connections`);
    }
    assert.ok(changes > KILLS * 10 && commits > KILLS * 3, `${changes} changes, ${commits} commits`);
  });
});

/** Returns a part of the endpoints, with at least one of each family. */
function someOf(endpoints: readonly ManifestEndpoint[], random: () => number): readonly ManifestEndpoint[] {
  return ([4, 6] as const).flatMap((family) => {
    const own = endpoints.filter(({ address }) => familyOf(address) === family);
    const kept = own.filter(() => random() < 0.5);
    return kept.length > 0 ? kept : own.slice(0, 1);
  });
}

/** Returns the documents of a text of manifests as one list. */
function asJson(text: string): string {
  const items = text.split("---\n").filter((document) => document !== "");
  return `{"apiVersion": "v1", "kind": "List", "items": [${items.join()}]}`;
}

async function until(holds: () => boolean): Promise<void> {
  for (let left = 6000; !holds(); left--) {
    assert.ok(left > 0, "nothing changes");
    await pause(10);
  }
}
