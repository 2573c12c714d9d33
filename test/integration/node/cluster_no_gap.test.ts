import assert from "node:assert/strict";
import path from "node:path";
import { formatAddress, parseAddress, FAMILIES, type Family, familyOf } from "../../../kernel/ip/address.ts";
import { Cluster, type ClusterPod } from "../../lab/cluster/cluster.ts";
import type { ClusterNode } from "../../lab/cluster/cluster_node.ts";
import type { LabPod } from "../../lab/lab.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { Churn, type ChurnCounts } from "../../support/cluster/churn.ts";
import { ClusterProbes, describeNodes, flowTo } from "../../support/cluster/probes.ts";
import { Restarts } from "../../support/cluster/restarts.ts";
import { requireKernel } from "../../support/privilege.ts";
import { randomFrom } from "../../support/random.ts";
import {
  type Knocks,
  type LoadReport,
  readKnocks,
  readReport,
  SteadyProcess,
} from "../../support/services/steady_load.ts";
import { hasLongForm } from "../../support/long_form.ts";
import { cpSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { BUNDLE } from "../../support/daemon/policyd.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";
import { serviceObjects } from "../../support/services/manifest.ts";

/** The packets that a pod has received, counted by a table of the test's own in the pod's namespace. */
interface Received {
  readonly allowed: number;
  readonly forbidden: number;
}

/** Makes a pod count the packets that it receives, by the sender's own address, before any other rule sees them. */
function countAt(pod: ClusterPod, allowed: readonly ClusterPod[], forbidden: readonly ClusterPod[]): void {
  const set = (senders: readonly ClusterPod[], family: Family): string =>
    senders
      .flatMap(({ addresses }) => addresses.filter((one) => familyOf(one) === family).map(formatAddress))
      .join(", ");
  const rules = FAMILIES.flatMap((family) => {
    const source = family === 4 ? "ip saddr" : "ip6 saddr";
    return [
      `${source} { ${set(allowed, family)} } counter name allowed`,
      `${source} { ${set(forbidden, family)} } counter name forbidden`,
    ];
  });
  const text = `table inet witness {
  counter allowed {}
  counter forbidden {}
  chain input {
    type filter hook prerouting priority -500
    ${rules.join("\n    ")}
  }
}
`;
  pod.pod.exec("nft", ["-f", "-"], text);
}

/** Returns the values of the counters of {@link countAt}. */
function receivedBy({ pod }: ClusterPod): Received {
  const count = (name: string): number => {
    const text = pod.exec("nft", ["list", "counter", "inet", "witness", name]);
    return Number(/packets (\d+)/.exec(text)?.[1] ?? Number.NaN);
  };
  return { allowed: count("allowed"), forbidden: count("forbidden") };
}

/** Resets the counters of {@link countAt}. */
function startAnew({ pod }: ClusterPod): void {
  pod.exec("nft", ["reset", "counters", "table", "inet", "witness"]);
}

/**
 * Matches the code of the bundle that computes the version of a table's schema (policyd/ruleset/schema.ts); the bundler
 * may have numbered its variable.
 */
const VERSION = /hash\d*\("sha256", ?(text\d*)\)\.slice\(0, ?VERSION/g;

/**
 * Writes a build of the daemon whose static schema differs: its tables have other versions, so that it finds none of
 * its own in the kernel of a node where the present build ran.
 *
 * @param directory gets the build
 * @returns the bundle's path
 */
function nextBuild(directory: string): string {
  cpSync(path.dirname(BUNDLE), directory, { recursive: true });
  const files = readdirSync(directory).filter((name) => name.endsWith(".js"));
  const texts = new Map(
    files.map((name) => [path.join(directory, name), readFileSync(path.join(directory, name), "utf8")]),
  );
  const [found, ...others] = [...texts].filter(([, text]) => text.search(VERSION) >= 0);
  assert.ok(found !== undefined && others.length === 0, `one file of the build has ${VERSION.source}`);
  const [file, text] = found;
  writeFileSync(
    file,
    text.replaceAll(VERSION, (code, name: string) => code.replace(name, `${name}+" of the next build"`)),
  );
  return path.join(directory, path.basename(BUNDLE));
}

const IS_FULL = hasLongForm("30 kills in place of 2, at 990 connections a second");
/** How often a daemon is ended, not counting the upgrade and the downgrade. */
const KILLS = IS_FULL ? 30 : 2;
const FLOWS = IS_FULL ? 120 : 60;
const CONNECTIONS_PER_SECOND = IS_FULL ? 990 : 90;
const CHANGES_PER_SECOND = IS_FULL ? 20 : 10;
const KNOCKS_PER_SECOND = IS_FULL ? 20 : 10;
const PORT = 8080;
const SERVICE_PORT = 80;
const NODE_PORT = 30_080;
const VIPS = ["10.96.0.20", "fd00:96::20"];
const NO_GAP = JSON.stringify({ failures: {}, unanswered: 0, stuck: 0 });

describe("a cluster while its daemons are killed, upgraded and downgraded", function () {
  this.timeout(IS_FULL ? 1_200_000 : 600_000);
  let cluster: Cluster;
  let probes: ClusterProbes;
  let nodes: readonly [ClusterNode, ClusterNode];
  let servers: readonly ClusterPod[] = [];
  let clients: readonly ClusterPod[] = [];
  let strangers: readonly ClusterPod[] = [];
  const processes: SteadyProcess[] = [];
  const seed = Date.now() >>> 0;
  const random = randomFrom(seed);

  before(async function () {
    requireKernel(this);
    cluster = await Cluster.start("no-gap");
    probes = new ClusterProbes(cluster);
    nodes = [await cluster.addNode("node1"), await cluster.addNode("node2")];
    await cluster.untilReady();
    servers = [...(await podsOf("near", { app: "server" })), ...(await podsOf("far", { app: "server" }))];
    clients = await podsOf("client", { app: "client" });
    strangers = await podsOf("stranger", { app: "stranger" });
    for (const { pod } of servers) await begin(pod, ["serve", String(PORT)]);
    for (const { namespace } of nodes) {
      // A thousand connections a second for two minutes would be more than a pod may have.
      namespace.writeSysctl("net/netfilter/nf_conntrack_tcp_timeout_time_wait", "10");
    }
  });
  after(async () => {
    for (const one of processes) one.kill();
    await cluster?.stop();
  });

  async function begin(...[namespace, args]: Parameters<typeof SteadyProcess.start>): Promise<SteadyProcess> {
    const started = await SteadyProcess.start(namespace, args);
    processes.push(started);
    return started;
  }

  /** Creates a pod on each node. */
  async function podsOf(name: string, labels: Readonly<Record<string, string>>): Promise<readonly ClusterPod[]> {
    return await Promise.all(
      nodes.map(({ name: node }) => cluster.createPod({ name: `${name}-${node}`, labels, node })),
    );
  }

  /** Applies the policy that keeps strangers out of the servers, after showing that strangers get in without it. */
  async function isolate(): Promise<void> {
    for (const server of servers) countAt(server, clients, strangers);
    const entries = strangers.flatMap((from) =>
      servers.flatMap((to) => FAMILIES.map((family) => flowTo(from, to, family))),
    );
    await probes.untilReached(entries);
    for (const server of servers)
      assert.ok(receivedBy(server).forbidden > 0, "the count of forbidden packets includes strangers that get in");
    await cluster.apply(POLICY);
    await probes.untilRefused(entries);
    for (const server of servers) startAnew(server);
  }

  function assertNoGap(reports: readonly LoadReport[]): void {
    for (const { failures, unanswered, stuck, opened, perSecond, answered, exchanges } of reports) {
      console.log(`      ${JSON.stringify({ opened, perSecond, answered, leastExchanges: Math.min(...exchanges) })}`);
      const gaps = JSON.stringify({ failures, unanswered, stuck });
      assert.ok(gaps === NO_GAP, `${gaps}\n${describeNodes(cluster)}`);
      assert.equal(answered, opened);
      assert.ok(opened > KILLS * 50 && Math.min(...exchanges) > KILLS, `${opened} connections`);
    }
  }

  function assertNothingForbidden(knocks: readonly Knocks[]): void {
    for (const server of servers) {
      const { allowed, forbidden } = receivedBy(server);
      assert.equal(forbidden, 0, `packets of strangers at ${server.name}`);
      assert.ok(allowed > KILLS * 50, `${allowed} packets of clients at ${server.name}`);
    }
    for (const { attempts, answered } of knocks) {
      assert.equal(answered, 0);
      assert.ok(attempts > KILLS * 10, `${attempts} attempts`);
    }
    assert.equal(cluster.fabric.droppedPackets(), 0, "the router drops no packet");
  }

  function assertChanged(counts: ChurnCounts): void {
    console.log(`      ${JSON.stringify(counts)}`);
    const least = Math.min(...Object.values({ ...counts }));
    assert.ok(least > KILLS, JSON.stringify(counts));
  }

  it(`FLEET-03 SVC-12: in ${KILLS} ends of daemons, an upgrade and a downgrade none of ${FLOWS} flows and ${CONNECTIONS_PER_SECOND} connections a second is reset or refused and no forbidden packet passes, at ${CHANGES_PER_SECOND} changes a second`, async () => {
    console.log(`      seed ${seed}`);
    await cluster.apply(SERVICE);
    await isolate();
    const service = { name: "web", port: "http", targetPort: PORT };
    const names = nodes.map(({ name }) => name);
    const changes = new Churn({ cluster, service, servers, nodes: names, random, perSecond: CHANGES_PER_SECOND });
    const restarts = new Restarts(nodes, random);
    try {
      // The load begins once the Service has endpoints: before, connections to it are refused.
      await probes.untilReached(clients.flatMap(({ pod: from }) => VIPS.map((host) => flowToService(from, host))));
      const targets = VIPS.flatMap((host) => [host, String(SERVICE_PORT)]);
      const nodePorts = nodes.flatMap(({ machine: { addresses } }) =>
        FAMILIES.flatMap((family) => [formatAddress(addresses[family]), String(NODE_PORT)]),
      );
      const load = ["load", String(FLOWS / 3), String(CONNECTIONS_PER_SECOND / 3)];
      const loads = await Promise.all([
        ...clients.map(({ pod }) => begin(pod, [...load, ...targets])),
        begin(cluster.fabric.router, [...load, ...nodePorts]),
      ]);
      const doors = servers.flatMap(({ addresses }) => addresses.flatMap((one) => [formatAddress(one), String(PORT)]));
      const knock = ["knock", String(KNOCKS_PER_SECOND), ...doors, ...targets];
      const knockers = await Promise.all(strangers.map(({ pod }) => begin(pod, knock)));

      const next = nextBuild(`${cluster.lab.scratch}/next`);
      for (let kill = 0; kill < KILLS; kill++) {
        const node = nodes[kill % 2 === 0 ? 0 : 1];
        await restarts.replace(node, kill % 4 < 2 ? "SIGKILL" : "SIGTERM", kill % 4 !== 3);
        if (kill === Math.floor(KILLS / 2)) await restarts.upgradeAndDowngrade(node, next);
      }
      await restarts.untilChanged();

      const knocks = await Promise.all(knockers.map(async (one) => readKnocks(await one.end())));
      const reports = await Promise.all(loads.map(async (one) => readReport(await one.end())));
      assertChanged(await changes.end());
      assertNoGap(reports);
      assertNothingForbidden(knocks);
      assert.deepEqual(await cluster.refused(), []);
    } finally {
      restarts.close();
      await changes.end();
    }
  });
});

function flowToService(from: LabPod, host: string): Flow {
  return { protocol: "tcp", from, to: { address: parseAddress(host), port: SERVICE_PORT } };
}

const PORTS = [{ name: "http", protocol: "TCP", port: SERVICE_PORT, targetPort: PORT, nodePort: NODE_PORT }] as const;
const [SERVICE] = serviceObjects("default/web", VIPS, PORTS, []);

/** The nodes' addresses, with which clients of node ports arrive. */
const NODES = ["192.0.2.0/24", "2001:db8:2::/64"].map((cidr) => ({ ipBlock: { cidr } }));

const POLICY = networkPolicy("default", {
  podSelector: labelled({ app: "server" }),
  policyTypes: ["Ingress"],
  ingress: [{ from: [{ podSelector: labelled({ app: "client" }) }, ...NODES] }],
});
