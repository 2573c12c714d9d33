import assert from "node:assert/strict";
import type { RawObject } from "../../apiserver/storage.ts";
import { createLab } from "../../lab/lab.ts";
import { ApiNode } from "../../support/daemon/api_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { until } from "../../support/until.ts";

/** The number of bad objects of each kind. */
const MANY = 1500;

/** Returns bad objects of a tenant, one of each kind that causes its own log line. @param number below 60,000 */
function badObjects(namespace: string, number: number): readonly RawObject[] {
  const name = `bad-${number}`;
  const metadata = { name, namespace };
  const clusterIP = `10.96.${(number >> 8) & 255}.${number & 255}`;
  const service = (suffix: string, spec: object): RawObject => ({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: `${name}-${suffix}`, namespace },
    spec: { type: "ClusterIP", clusterIP, clusterIPs: [clusterIP], ports: [{ port: 80, protocol: "TCP" }], ...spec },
  });
  return [
    service("port", { ports: [{ port: 70_000, protocol: "TCP" }] }),
    service("local", { externalIPs: ["127.0.0.1"] }),
    service("external", { externalIPs: [`198.51.${(number >> 8) & 255}.${number & 255}`] }),
    {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { ...metadata, annotations: { "drawbridge.dev/shadow": "perhaps" } },
      spec: { podSelector: {} },
    },
  ];
}

const MESSAGES = [
  "object not used as it is",
  "part of a Service is not served",
  "a Service takes traffic to its externalIPs",
  "NetworkPolicy is not in force as written",
];

describe("log lines that tenants' objects cause", function () {
  this.timeout(300_000);
  let node: ApiNode;

  before(async function () {
    requireKernel(this);
    node = new ApiNode(createLab("log-lines"));
    await node.prepare();
    await node.listen();
    node.start();
    await node.untilSynced();
  });
  after(async () => {
    await node?.stop();
    node?.lab.destroy();
  });

  const put = (namespace: string, numbers: readonly number[]): Promise<unknown> =>
    node.server.apply(...numbers.flatMap((number) => badObjects(namespace, number)));
  const linesOf = (message: string): readonly string[] =>
    node.daemon
      .log()
      .split("\n")
      .filter((line) => line.includes(message));
  const bad =
    (namespace: string): ((line: string) => boolean) =>
    (line) =>
      line.includes(`${namespace}/bad-`);

  it("SHARE-06: a tenant with thousands of bad objects does not keep lines about another tenant's objects out of the log", async () => {
    await put(
      "greedy",
      Array.from({ length: MANY }, (_, number) => number),
    );
    const flooded = (): boolean => MESSAGES.every((message) => linesOf(message).filter(bad("greedy")).length >= 20);
    await until(flooded, () => `no flood: ${node.daemon.log().slice(-2000)}`, 120000);
    await put("shop", [MANY]);
    // Without shares each of the 1,000 waiting lines of a message would get its second first.
    const reported = (): readonly string[] => MESSAGES.filter((message) => linesOf(message).some(bad("shop")));
    await until(
      () => reported().length >= MESSAGES.length,
      () => `only ${reported().join()}: ${node.daemon.log().slice(-2000)}`,
    );
    for (const message of MESSAGES) {
      const own = linesOf(message).filter(bad("greedy")).length;
      assert.ok(own >= 20 && own < 100, `${own} lines of ${MANY}: ${message}`);
    }
  });
});
