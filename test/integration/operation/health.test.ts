import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { formatAddress } from "../../../kernel/ip/address.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { ApiNode } from "../../support/daemon/api_node.ts";
import { askHttp, type HttpAnswer } from "../../support/http.ts";
import { configured, type DaemonProcess, installing } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { suiteLab, testLab } from "../../support/suite_lab.ts";
import { valueWhen } from "../../support/until.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";

const PORT = 10_256;

/** Returns the node's own Node object. */
function nodeObject(metadata: object = {}, spec: object = {}): string {
  return JSON.stringify({ apiVersion: "v1", kind: "Node", metadata: { name: "node1", ...metadata }, spec });
}

describe("the health of a running daemon", function () {
  this.timeout(300_000);
  /** One for all tests. The first tests share a daemon, too. */
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let usualDaemon: DaemonProcess | undefined;

  before(function () {
    lab = suiteLab(this, "policyd-health");
    ({ node1: wired } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
  });
  afterEach(async function () {
    if (this.currentTest?.state === "failed") usualDaemon = undefined;
    if (usualDaemon === undefined) await policyd.kill();
    for (const name of readdirSync(policyd.pathOf(""))) policyd.put(name, "");
  });

  /** Returns the daemon without further arguments that the first tests share; DAEMON-07 ends it. */
  async function usual(): Promise<DaemonProcess> {
    return (usualDaemon ??= await policyd.start());
  }

  const ask = (path: string, host = "127.0.0.1", port = PORT): HttpAnswer => askHttp(wired.node, host, port, path);

  const until = (path: string, holds: (answer: HttpAnswer) => boolean, what: string): Promise<HttpAnswer> =>
    valueWhen(
      () => ask(path),
      holds,
      (answer) => `${what}: ${path} is ${JSON.stringify(answer)}`,
    );

  /** Has another program listen at a port of the node, and returns a function that ends it. */
  async function occupy(host: string, port = PORT): Promise<() => Promise<void>> {
    const program = `require("net").createServer().listen({ port: ${port}, host: "${host}" }, () => console.log("up"))`;
    const other = wired.node.inside(() =>
      spawn(process.execPath, ["-e", program], { stdio: ["ignore", "pipe", "inherit"] }),
    );
    await once(other.stdout, "data");
    return async () => {
      other.kill("SIGKILL");
      await once(other, "close");
    };
  }

  it("HEALTH-01: health is served at every address of both families in the node's namespace, and nowhere else", async () => {
    await usual();
    await until("/readyz", ({ status }) => status === 200, "ready");
    for (const host of ["127.0.0.1", "::1", ...wired.addresses.map(formatAddress)]) {
      const paths = ["/livez", "/readyz", "/healthz?all", "/__proto__"];
      const [live, ready, health, other] = paths.map((path) => ask(path, host));
      assert.deepEqual([live?.body, ready?.body], ["ok", "ok"], host);
      assert.deepEqual([health?.status, health?.headers["content-type"]], [200, "application/json"]);
      assert.match(health?.body ?? "", /^\{"lastUpdated": "[^"]+","currentTime": "[^"]+", "nodeEligible": true\}$/);
      assert.equal(other?.status, 404);
    }
    await assert.rejects(fetch(`http://127.0.0.1:${PORT}/livez`), "not in the test's own namespace");
  });

  it("HEALTH-04: a node that is deleted or that the autoscaler is about to remove gets no new connections; a cordoned one does", async () => {
    policyd.put("node.json", nodeObject());
    await usual();
    await until("/healthz", ({ status }) => status === 200, "eligible");
    const taints = [{ key: "ToBeDeletedByClusterAutoscaler", effect: "NoSchedule" }];
    const isOut = ({ status, body }: HttpAnswer): boolean => status === 503 && body.includes('"nodeEligible": false');
    policyd.put("node.json", nodeObject({}, { taints }));
    await until("/healthz", isOut, "tainted");
    assert.equal(ask("/readyz").status, 200, "the daemon itself is well");
    policyd.put("node.json", nodeObject({}, { unschedulable: true }));
    await until("/healthz", ({ status }) => status === 200, "cordoned");
    policyd.put("node.json", nodeObject({ deletionTimestamp: "2026-11-22T04:30:19Z" }));
    await until("/healthz", isOut, "being deleted");
    policyd.put("node.json", "");
    await until("/healthz", isOut, "deleted");
  });

  it("DAEMON-07: after SIGTERM the daemon exits with 0, its rules stay, and it does not become ready again", async () => {
    const daemon = await usual();
    await until("/readyz", ({ status }) => status === 200, "ready");
    const rules = wired.node.ruleset("--stateless");
    assert.match(rules, /table inet drawbridge/);
    usualDaemon = undefined;
    assert.deepEqual(await daemon.kill("SIGTERM"), { code: 0, signal: null });
    assert.doesNotMatch(daemon.log(), /did not stop in time/);
    assert.equal(wired.node.ruleset("--stateless"), rules);
    assert.equal(ask("/readyz").body, "ECONNREFUSED");
  });

  it("HEALTH-02: a taken health port is reported once, also in the status, tried again, and served when it is free", async () => {
    const release = await occupy("0.0.0.0");
    const daemon = await policyd.start();
    const isReported = ({ problems }: { readonly problems: readonly string[] }): boolean =>
      /healthAddress: 0\.0\.0\.0 10256: .*EADDRINUSE.*kube-proxy/.test(problems.join());
    await daemon.statusWhen(isReported, "reported");
    assert.equal(ask("/livez", "::1").status, 200, "the other family is served");
    // The next try comes after 2 s.
    await pause(2500);
    assert.ok(isReported(daemon.status()));
    assert.equal(daemon.log().match(/health is not served.*EADDRINUSE/g)?.length, 1, daemon.log());
    await release();
    await until("/livez", ({ status }) => status === 200, "served");
    const isOver = (): boolean => daemon.log().includes("health is served after all");
    await daemon.statusWhen((status) => !isReported(status) && isOver(), "no problem any more");
  });

  it("HEALTH-02: with services: false the health port is left to kube-proxy, and the node's health is served only on localhost", async () => {
    const release = await occupy("0.0.0.0");
    const daemon = await policyd.start([configured(lab.scratch, { services: false })]);
    await daemon.statusWhen(() => ask("/readyz", "127.0.0.1", 9874).status === 200, "ready");
    assert.equal(ask("/healthz", "127.0.0.1", 9874).status, 404, "kube-proxy answers this");
    assert.equal(ask("/livez", formatAddress(wired.addresses[0]), 9874).body, "ECONNREFUSED");
    for (const host of ["127.0.0.1", "::1"]) assert.equal(ask("/proxyMode", host, 10_249).body, "ECONNREFUSED");
    assert.deepEqual(daemon.status().problems, []);
    await release();
  });

  it("HEALTH-08: the mode of Services is served at localhost:10249, and a taken port stays with the program that has it", async () => {
    const release = await occupy("127.0.0.1", 10_249);
    const daemon = await policyd.start();
    await until("/readyz", ({ status }) => status === 200, "ready");
    await daemon.statusWhen(() => ask("/proxyMode", "::1", 10_249).status === 200, "the mode is known");
    assert.equal(ask("/proxyMode", "::1", 10_249).body, "nftables");
    for (const address of wired.addresses) {
      assert.equal(ask("/proxyMode", formatAddress(address), 10_249).body, "ECONNREFUSED");
    }
    assert.deepEqual(daemon.status().problems, []);
    await daemon.kill("SIGTERM");
    await release();
    const second = await policyd.start();
    await second.statusWhen(() => ask("/proxyMode", "127.0.0.1", 10_249).body === "nftables", "by IPv4 too");
  });
});

describe("the readiness of a daemon with an API server", function () {
  this.timeout(300_000);
  let node: ApiNode;

  beforeEach(async function () {
    node = new ApiNode(testLab(this, "policyd-ready"));
    await node.prepare();
  });
  it("HEALTH-06: the daemon is alive, and becomes ready when everything is read and the plugin is installed", async () => {
    const ask = (path: string): HttpAnswer => askHttp(node.wired.node, "127.0.0.1", PORT, path);
    node.start([`--kubeconfig=${node.kubeconfig()}`, configured(node.directory, installing(node.directory))]);
    const { isSynced } = await node.daemon.statusWhen(({ problemCount }) => problemCount > 0, "the server is away");
    assert.equal(isSynced, false);
    const early = ask("/readyz");
    assert.deepEqual([ask("/livez").status, ask("/healthz").status, early.status], [200, 503, 503]);
    assert.match(early.body, /^\[-\]rules: not in force yet$/m);
    assert.match(early.body, /^\[-\]objects: not all are read yet$/m);
    assert.match(early.body, /^\[-\]installation: /m);
    const { body } = askHttp(node.wired.node, formatAddress(node.wired.addresses[0]), PORT, "/readyz");
    const lines = body.split("\n").filter((line) => line.startsWith("[-]"));
    assert.equal(lines.length, early.body.match(/^\[-\]/gm)?.length);
    for (const line of lines) assert.match(line, /^\[-\]\w+: reason withheld$/, "by any other address");
    await node.listen();
    await node.daemon.statusWhen(() => ask("/readyz").body.includes("no Node object node1"), "its Node is awaited");
    assert.match(ask("/readyz").body, /^\[\+\]objects ok$/m);
    await node.server.apply(nodeOf(node.wired));
    await node.daemon.statusWhen(() => ask("/readyz").status === 200, "ready");
    assert.deepEqual([ask("/readyz").body, ask("/healthz").status], ["ok", 200]);
  });
});
