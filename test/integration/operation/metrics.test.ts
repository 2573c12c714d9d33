import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab, LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { type Scrape, scrape, scrapeWhen } from "../../support/daemon/scrape.ts";

const CLUSTER_IPS = ["10.96.0.10", "fd00:96::10"] as const;
/** The serving pods, with the numbers at the ends of their addresses. */
const SERVERS = { first: 3, second: 4, third: 5 } as const;
type Server = keyof typeof SERVERS;
const SERVER_NAMES = ["first", "second", "third"] as const;

const addressesOf = (server: Server) => [`10.244.1.${SERVERS[server]}`, `fd00:244:1::${SERVERS[server]}`] as const;

function service(name: string, clusterIp: string, spec = ""): string {
  return `---
apiVersion: v1
kind: Service
metadata: {name: ${name}, namespace: default}
spec: {type: ClusterIP, clusterIP: ${clusterIp}, ports: [{name: http, port: 80}]${spec}}
`;
}

/** Returns a Service of both families with some of the pods as endpoints. */
function web(servers: readonly Server[], spec = ""): string {
  const slices = (["IPv4", "IPv6"] as const).map(
    (family, index) => `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-${family.toLowerCase()}, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: ${family}
ports: [{name: http, protocol: TCP, port: 8080}]
endpoints:
${servers.map((server) => `- {addresses: ["${addressesOf(server)[index]}"], nodeName: node1}`).join("\n")}
`,
  );
  const ips = CLUSTER_IPS.map((ip) => JSON.stringify(ip)).join();
  return service("web", CLUSTER_IPS[0], `, clusterIPs: [${ips}], ipFamilies: [IPv4, IPv6]${spec}`) + slices.join("");
}

function connections(endpoint: string): string {
  const labels = `namespace="default",service="web",port="http",protocol="TCP",endpoint="${endpoint}"`;
  return `drawbridge_service_endpoint_connections_total{${labels}}`;
}

const endpointsOf = (server: Server) => [`${addressesOf(server)[0]}:8080`, `[${addressesOf(server)[1]}]:8080`];
const commitsOf = (values: Scrape) => values.get("drawbridge_sync_commits_total") ?? 0;

describe("metrics of a node with policyd", function () {
  this.timeout(300_000);
  /** One for all tests, with its pods; each test has daemons and objects of its own. */
  let lab: Lab;
  let isMade = false;
  let hasPods = false;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let daemon: DaemonProcess;
  let prober: Prober;
  let client: LabPod;
  /** The number of connections that each endpoint has answered. */
  let answered: Map<string, number>;

  beforeEach(function () {
    requireKernel(this);
    answered = new Map();
    if (isMade) return;
    lab = createLab("policyd-metrics");
    ({ node1: wired } = twoNodes(lab, { mtu: 1420 }));
    policyd = new PolicydNode(lab, wired);
    prober = new Prober(lab);
    isMade = true;
    hasPods = false;
  });
  afterEach(async function () {
    await policyd?.kill();
    if (this.currentTest?.state === "failed") return end();
    for (const name of readdirSync(policyd.pathOf(""))) policyd.put(name, "");
  });
  after(end);

  function end(): void {
    isMade = false;
    lab?.destroy();
  }

  function attach(name: string): LabPod {
    const pod = lab.pod(name);
    assert.equal(add(wired, pod, policyd.overrides).exitCode, 0);
    return pod;
  }

  /** Attaches the client and the serving pods, unless an earlier test has. They are the first pods of the lab. */
  function attachAll(): void {
    if (hasPods) return;
    hasPods = true;
    client = attach("client");
    for (const name of SERVER_NAMES) {
      const namespace = attach(name);
      for (const text of addressesOf(name)) {
        prober.listen("tcp", { namespace, address: parseAddress(text), port: 8080 });
      }
    }
  }

  /** Makes new connections to both cluster IPs, all of which must be answered. */
  async function dial(count: number): Promise<void> {
    const flows = Array.from({ length: count }, () => CLUSTER_IPS).flatMap((ips) =>
      ips.map((ip) => ({ protocol: "tcp" as const, from: client, to: { address: parseAddress(ip), port: 80 } })),
    );
    for (const { reached, why, seenBy, flow } of await prober.run(flows, { timeoutMilliseconds: 10_000 })) {
      assert.ok(reached, why);
      const server = SERVER_NAMES.find((name) => name === seenBy?.name);
      assert.ok(server !== undefined);
      const endpoint = endpointsOf(server)[typeof flow.to.address === "number" ? 0 : 1] ?? "";
      answered.set(endpoint, (answered.get(endpoint) ?? 0) + 1);
    }
  }

  /** Returns the metrics once they have exactly the series of these pods. */
  async function served(servers: readonly Server[]): Promise<Scrape> {
    const expected = servers.flatMap(endpointsOf).map(connections).sort();
    const isServed = (values: Scrape): boolean => {
      const found = [...values.keys()].filter((name) => name.startsWith("drawbridge_service_endpoint_"));
      return String(found.sort()) === String(expected);
    };
    return await scrapeWhen(wired.node, isServed, `series of ${servers.join()}`);
  }

  /** Waits until the metrics count the connections of each endpoint that its pod answered. */
  async function expectAnswered(servers: readonly Server[]): Promise<void> {
    const endpoints = servers.flatMap(endpointsOf);
    const found = (values: Scrape) => endpoints.map((endpoint) => values.get(connections(endpoint)));
    const expected = endpoints.map((endpoint) => answered.get(endpoint) ?? 0);
    await scrapeWhen(wired.node, (values) => String(found(values)) === String(expected), String(expected));
  }

  it("METRIC-01: each endpoint's new connections are counted, also through changes, repairs and affinity", async () => {
    daemon = await policyd.start(["--min-sync-period=0"]);
    attachAll();
    policyd.put("web.yaml", web(["first", "second"]));
    await served(["first", "second"]);
    await dial(20);
    await expectAnswered(["first", "second"]);
    await dial(10);

    policyd.put("web.yaml", web(["first", "third"]));
    await served(["first", "third"]);
    await expectAnswered(["first", "third"]);
    await dial(10);

    // Three endpoints are in another map, so every element changes.
    policyd.put("web.yaml", web(["first", "second", "third"]));
    await served(SERVER_NAMES);
    await expectAnswered(SERVER_NAMES);
    await dial(10);
    await expectAnswered(SERVER_NAMES);

    const before = commitsOf(scrape(wired.node));
    wired.node.exec("nft", ["flush", "ruleset"]);
    const repaired = (values: Scrape) => commitsOf(values) > before && values.get("drawbridge_synced") === 1;
    await scrapeWhen(wired.node, repaired, "repaired");
    await dial(10);
    await expectAnswered(SERVER_NAMES);

    policyd.put("web.yaml", web(SERVER_NAMES, ", sessionAffinity: ClientIP"));
    await scrapeWhen(wired.node, (values) => commitsOf(values) > before + 1, "affinity is in force");
    await dial(5);
    await expectAnswered(SERVER_NAMES);
    policyd.put("web.yaml", "");
    await served([]);
  });

  it("METRIC-02: drops are counted by reason, and Services by the policy that has no local endpoint", async () => {
    await policyd.start(["--min-sync-period=0"]);
    attachAll();
    const dropped = 'drawbridge_dropped_packets_total{reason="no endpoint on this node"}';
    assert.equal(scrape(wired.node).get(dropped), 0);
    const elsewhere = web(["first"], ", internalTrafficPolicy: Local").replaceAll("node1}", "node2}");
    policyd.put("web.yaml", elsewhere);
    const without = 'drawbridge_services_without_local_endpoints{traffic_policy="internal"}';
    await scrapeWhen(
      wired.node,
      (values) => values.get(without) === 1 && values.get("drawbridge_synced") === 1,
      without,
    );
    const to = { address: parseAddress(CLUSTER_IPS[0]), port: 80 };
    const [result] = await prober.run([{ protocol: "tcp", from: client, to }], { timeoutMilliseconds: 300 });
    assert.equal(result?.reached, false);
    const values = await scrapeWhen(wired.node, (found) => (found.get(dropped) ?? 0) >= 1, dropped);
    const replacements = (found: Scrape) => found.get("drawbridge_sync_table_replacements_total") ?? 0;
    wired.node.exec("nft", ["flush", "ruleset"]);
    const again = await scrapeWhen(
      wired.node,
      (found) => replacements(found) > replacements(values) && found.get("drawbridge_synced") === 1,
      "repaired",
    );
    assert.ok((again.get(dropped) ?? 0) >= (values.get(dropped) ?? 0), "it never falls");
  });

  it("SYNC-07: by default single changes are batches of their own, and 1,000 Services at once are a few batches", async () => {
    await policyd.start();
    const single = 4;
    for (let number = 1; number <= single; number++) {
      const earlier = commitsOf(scrape(wired.node));
      policyd.put(`${number}.yaml`, service(`s${number}`, `10.96.1.${number}`));
      await scrapeWhen(wired.node, (found) => commitsOf(found) > earlier, "a batch of its own");
    }
    const before = commitsOf(scrape(wired.node));
    const many = Array.from({ length: 1000 }, (_, i) => service(`b${i}`, `10.97.${i >> 8}.${i & 255}`));
    policyd.put("burst.yaml", many.join(""));
    const isDone = (values: Scrape): boolean =>
      values.get('drawbridge_objects{kind="Service"}') === single + 1000 && values.get("drawbridge_synced") === 1;
    const batches = commitsOf(await scrapeWhen(wired.node, isDone, "all are served")) - before;
    assert.ok(batches >= 1 && batches <= 20, `${batches} batches`);
  });

  it("BAD-01: invalid fields of a Service are logged and counted once, and the rest of it is served", async () => {
    daemon = await policyd.start(["--min-sync-period=0"]);
    const bad = (extra: string) =>
      service(
        "bad",
        "10.96.0.20",
        `, externalIPs: ["010.0.0.1", "198.51.100.7"], loadBalancerSourceRanges: ["10.0.0.0/33"]${extra}`,
      )
        .replace("{name: bad,", '{annotations: {drawbridge.dev/enforce-source-ranges: "yes"}, name: bad,')
        .replace("port: 80}]", "port: 80}, {name: x, port: 70000}]");
    const problems = [
      /Service default\/bad: spec\.externalIPs\[0\]: .*010\.0\.0\.1/,
      /Service default\/bad: spec\.loadBalancerSourceRanges\[0\]: .*10\.0\.0\.0\/33/,
      /Service default\/bad: spec\.ports\[1\]\.port: 70000/,
      /Service default\/bad: metadata\.annotations\[.*enforce-source-ranges.*\]: .*yes/,
    ];
    const count = 'drawbridge_object_problems_total{kind="Service"}';
    const served10 = (ip: string) => wired.node.exec("nft", ["list", "table", "inet", "drawbridge"]).includes(ip);
    const linesOf = (problem: RegExp) =>
      daemon
        .log()
        .split("\n")
        .filter((line) => problem.test(line)).length;
    policyd.put("all.yaml", bad("") + service("good", "10.96.0.21"));
    await scrapeWhen(
      wired.node,
      (values) => values.get(count) === 4 && served10("10.96.0.21"),
      "the problems are counted, and the rest is served",
    );
    assert.ok(served10("10.96.0.20") && served10("198.51.100.7"), "the valid fields are served");
    // The Service changes in another field, and is read again, beside another change.
    policyd.put("all.yaml", bad(", sessionAffinity: ClientIP") + service("good", "10.96.0.22"));
    await scrapeWhen(wired.node, () => served10("10.96.0.22"), "the change is served");
    policyd.put("other.yaml", service("other", "10.96.0.23"));
    const values = await scrapeWhen(wired.node, () => served10("10.96.0.23"), "another file is read");
    assert.equal(values.get(count), 4);
    assert.equal(values.get("drawbridge_sync_failures_total"), 0);
    // The log has been read to its end after this.
    await daemon.kill("SIGTERM");
    for (const problem of problems) assert.equal(linesOf(problem), 1, `${String(problem)}\n${daemon.log()}`);
    assert.equal(linesOf(/takes traffic to its externalIPs/), 1, "the warning comes once");
  });

  it("METRIC-05: with an empty metricsAddress nothing listens for scrapes", async () => {
    await policyd.start(["--metrics-address="]);
    assert.throws(() => scrape(wired.node), /ECONNREFUSED/);
  });
});
