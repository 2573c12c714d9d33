import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { formatAddress, parseAddress } from "../../kernel/ip/address.ts";
import { ApiServerProcess } from "../apiserver/process.ts";
import type { RawObject } from "../apiserver/storage.ts";
import { Storm } from "../apiserver/storm.ts";
import { add } from "../lab/cni.ts";
import type { Lab, LabPod } from "../lab/lab.ts";
import { createLab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { Prober } from "../lab/probe/prober.ts";
import type { WiredNode } from "../lab/topology.ts";
import { twoNodes } from "../lab/topology.ts";
import type { Certificate } from "../support/certificate.ts";
import { makeCertificate } from "../support/certificate.ts";
import type { DaemonProcess } from "../support/policyd.ts";
import { startDaemon } from "../support/policyd.ts";
import { requireKernel } from "../support/privilege.ts";
import { randomFrom } from "../support/random.ts";
import { scrapeWhen } from "../support/scrape.ts";

const PORT = 6443;
const TOKEN = "t0ken-of-policyd";
/** As the manifests will grant it. */
const GRANTS = Object.fromEntries(
  [
    "namespaces",
    "nodes",
    "pods",
    "services",
    "endpointslices.discovery.k8s.io",
    "networkpolicies.networking.k8s.io",
    "clusternetworkpolicies.policy.networking.k8s.io",
  ].map((name) => [name, ["list", "watch"]]),
);

const SERVICE: RawObject = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "web", namespace: "shop" },
  spec: {
    type: "ClusterIP",
    clusterIP: "10.96.0.10",
    clusterIPs: ["10.96.0.10"],
    ports: [{ name: "http", protocol: "TCP", port: 80 }],
  },
};

const slice = (address: string): RawObject => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: { name: "web-1", namespace: "shop", labels: { "kubernetes.io/service-name": "web" } },
  addressType: "IPv4",
  ports: [{ name: "http", protocol: "TCP", port: 8080 }],
  endpoints: [{ addresses: [address], conditions: { ready: true }, nodeName: "node1" }],
});

const pod = (name: string, app: string): RawObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, namespace: "default", uid: `uid-${name}`, labels: { app } },
  spec: { nodeName: "node1" },
  status: { phase: "Running" },
});

const POLICY: RawObject = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "web", namespace: "default" },
  spec: {
    podSelector: { matchLabels: { app: "web" } },
    policyTypes: ["Ingress"],
    ingress: [{ from: [{ podSelector: { matchLabels: { app: "client" } } }] }],
  },
};

describe("a node whose objects come from an API server", function () {
  this.timeout(180_000);
  let lab: Lab;
  let wired: WiredNode;
  let router: LabNamespace;
  let server: ApiServerProcess;
  let authority: Certificate;
  let daemon: DaemonProcess;
  let prober: Prober;
  let client: LabPod;
  let directory = "";
  let serverAddress = "";
  let counter = 0;

  beforeEach(async function () {
    requireKernel(this);
    lab = createLab(`policyd-api${++counter}`);
    const { node1, router: theirs } = twoNodes(lab);
    router = theirs;
    wired = node1;
    serverAddress = formatAddress(wired.routerAddresses[0]);
    authority = makeCertificate("authority");
    server = new ApiServerProcess(router);
    await server.tell({ type: "features", features: { token: TOKEN, grants: GRANTS } });
    prober = new Prober(lab.calls);
    directory = `${lab.scratch}/policyd`;
    mkdirSync(`${directory}/account`, { recursive: true });
    writeFileSync(`${directory}/account/token`, TOKEN);
    writeFileSync(`${directory}/account/ca.crt`, authority.certificate);
  });
  afterEach(async () => {
    prober?.close();
    await daemon?.kill("SIGKILL");
    await server?.stop();
    lab?.destroy();
  });

  async function listen(): Promise<void> {
    const certificate = makeCertificate("server", authority, serverAddress);
    await server.tell({ type: "listen", address: serverAddress, port: PORT, certificate });
  }

  function start(args: readonly string[]): void {
    daemon = startDaemon(`${directory}/run/policyd.sock`, [
      "--node-name=node1",
      `--state-directory=${wired.node.runDir}`,
      `--network-namespace=${wired.node.path}`,
      ...args,
    ]);
  }

  /** A kubeconfig with everything in it. */
  function kubeconfig(): string {
    const cluster = {
      server: `https://${serverAddress}:${PORT}`,
      "certificate-authority-data": Buffer.from(authority.certificate).toString("base64"),
    };
    const config = {
      apiVersion: "v1",
      kind: "Config",
      "current-context": "here",
      clusters: [{ name: "one", cluster }],
      contexts: [{ name: "here", context: { cluster: "one", user: "me" } }],
      users: [{ name: "me", user: { token: TOKEN } }],
    };
    writeFileSync(`${directory}/kubeconfig`, JSON.stringify(config));
    return `${directory}/kubeconfig`;
  }

  /** Three pods, of which two listen; and the Service in front of the first. */
  async function attachPods(): Promise<void> {
    const overrides = { policyd: { socket: `${directory}/run/policyd.sock`, wait: "10s" } };
    await server.apply(SERVICE, slice("10.244.1.3"));
    for (const [name, number] of [
      ["client", 2],
      ["first", 3],
      ["second", 4],
    ] as const) {
      await server.apply(pod(name, name));
      const namespace = lab.pod(name);
      assert.equal(add(wired, namespace, overrides).error, undefined);
      if (name === "client") client = namespace;
      else prober.listen("tcp", { namespace, address: parseAddress(`10.244.1.${number}`), port: 8080 });
    }
  }

  /** Who answers the Service; "" for nobody. */
  async function answer(): Promise<string> {
    const to = { address: parseAddress("10.96.0.10"), port: 80 };
    const [result] = await prober.run([{ protocol: "tcp", from: client, to }], { timeoutMilliseconds: 300 });
    return result?.reached === true ? (result.seenBy?.name ?? "") : "";
  }

  async function untilAnswered(expected: string): Promise<void> {
    for (let left = 300; ; left--) {
      const found = await answer();
      if (found === expected) return;
      assert.ok(left > 0, `${found}; expected ${expected}; ${daemon.log()}`);
      await pause(50);
    }
  }

  it("API-03 SVC-26: waits for an API server that is away, says so, and programs nothing until it has everything", async () => {
    await server.apply(SERVICE, slice("10.244.1.3"));
    await server.tell({
      type: "plan",
      faults: [{ on: "any", path: "/api/v1/services", count: 2, fault: { type: "status", status: 503 } }],
    });
    start([`--kubeconfig=${kubeconfig()}`]);
    const away = await daemon.statusWhen(({ problemCount }) => problemCount > 0, "a problem");
    assert.equal(away.isSynced, false);
    assert.match(away.problems.join("\n"), /^https:\/\/192\.0\.2\.9:6443: connect ECONNREFUSED .*it is tried again/m);
    const empty = wired.node.exec("nft", ["list", "ruleset"]);
    await listen();
    await daemon.statusWhen(
      ({ problems }) => problems.some((text) => /services: 503/.test(text)),
      "services are missing",
    );
    assert.equal(wired.node.exec("nft", ["list", "ruleset"]), empty);
    const synced = await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    assert.deepEqual([synced.objects["Service"], synced.objects["EndpointSlice"]], [1, 1]);
    for (let left = 500; !wired.node.exec("nft", ["list", "ruleset"]).includes("10.96.0.10"); left--) {
      assert.ok(left > 0, "the Service is programmed");
      await pause(20);
    }
  });

  it("API-13: a Service and a policy follow the server, stay while it is away, also over a restart, and catch up", async () => {
    await listen();
    start([`--kubeconfig=${kubeconfig()}`]);
    await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    await attachPods();
    await untilAnswered("first");
    await server.apply({
      ...POLICY,
      spec: { podSelector: { matchLabels: { app: "first" } }, policyTypes: ["Ingress"] },
    });
    await untilAnswered("");
    await server.apply(slice("10.244.1.4"));
    await untilAnswered("second");
    await server.tell({ type: "down" });
    await daemon.statusWhen(({ problems }) => problems.some((text) => /ECONNREFUSED/.test(text)), "away");
    const { objects } = daemon.status();
    await server.apply(slice("10.244.1.3"), { ...POLICY, isGone: true });
    assert.equal(await answer(), "second");
    assert.deepEqual(daemon.status().objects, objects);
    const stale = 'drawbridge_api_staleness_seconds{resource="endpointslices.discovery.k8s.io"}';
    await scrapeWhen(wired.node, (values) => (values.get(stale) ?? 0) > 0, "the metric says how old it is");
    await daemon.kill("SIGKILL");
    start([`--kubeconfig=${kubeconfig()}`]);
    await daemon.statusWhen(({ problemCount }) => problemCount > 0, "away");
    assert.equal(await answer(), "second");
    await listen();
    await untilAnswered("first");
  });

  it("API-15: a connection whose other end is gone without a word is given up, and what was missed is caught up", async () => {
    await listen();
    start([`--kubeconfig=${kubeconfig()}`]);
    await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    await attachPods();
    await untilAnswered("first");
    const drop = `table inet cut { chain input { type filter hook input priority 0; tcp dport ${PORT} drop; }; }`;
    router.exec("nft", ["-f", "-"], drop);
    await server.apply(slice("10.244.1.4"));
    for (let left = 600; !/ETIMEDOUT|no answer in time/.test(daemon.status().problems.join("\n")); left--) {
      assert.ok(left > 0, `given up: ${daemon.log()}`);
      await pause(200);
    }
    assert.equal(daemon.status().objects["EndpointSlice"], 1);
    router.exec("nft", ["delete", "table", "inet", "cut"]);
    await untilAnswered("second");
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
  });

  it("API-09: among faults the daemon ends with what the server has", async () => {
    await listen();
    start([`--kubeconfig=${kubeconfig()}`]);
    await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    await attachPods();
    const seed = Math.floor(Math.random() * 2 ** 31);
    const storm = new Storm(randomFrom(seed));
    for (let step = 0; step < 200; step++) {
      const { objects, strike, plan, others } = storm.next();
      await server.apply(...objects);
      // What is silent or hangs is found out after minutes: see the same test on a faster clock.
      if (strike !== undefined && strike.type !== "silence") await server.tell({ type: "strike", fault: strike });
      if (plan !== undefined && plan.fault.type !== "hang") {
        await server.tell({ type: "plan", faults: [{ ...plan, count: 1 }] });
      }
      if (others === "compact" || others === "bookmark") await server.tell({ type: others });
      if (others === "down") {
        await server.tell({ type: "down" });
        await listen();
      }
      await pause(20);
    }
    await server.tell({ type: "heal" });
    await server.apply(slice("10.244.1.4"));
    const expected: Record<string, number> = {};
    for (const { kind } of (await server.model()).values()) expected[kind] = (expected[kind] ?? 0) + 1;
    const isEqual = (objects: Readonly<Record<string, number>>): boolean =>
      Object.entries(objects).every(([kind, count]) => count === (expected[kind] ?? 0));
    for (let left = 90; !isEqual(daemon.status().objects); left--) {
      assert.ok(left > 0, `seed ${seed}: ${JSON.stringify(daemon.status())}; expected ${JSON.stringify(expected)}`);
      await pause(1000);
    }
    await untilAnswered("second");
    assert.doesNotMatch(daemon.log(), /unexpected error/);
  });

  it("SVC-25: the API server is where the kubelet says it is, and needs no Service rules; the token comes from files", async () => {
    await listen();
    const config = { clusters: [{ name: "k", cluster: { server: `https://${serverAddress}:${PORT}` } }] };
    writeFileSync(`${directory}/kubelet.conf`, JSON.stringify({ apiVersion: "v1", kind: "Config", ...config }));
    const fields = {
      apiVersion: "drawbridge.dev/v1alpha1",
      kind: "PolicydConfiguration",
      kubeletKubeconfig: `${directory}/kubelet.conf`,
      serviceAccountDirectory: `${directory}/account`,
    };
    writeFileSync(`${directory}/policyd.json`, JSON.stringify(fields));
    assert.doesNotMatch(wired.node.exec("nft", ["list", "ruleset"]), /table/);
    start([`--config=${directory}/policyd.json`]);
    await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    await attachPods();
    await untilAnswered("first");
    assert.deepEqual(daemon.status().problems, []);
  });
});
