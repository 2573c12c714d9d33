import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { addressToBytes, parseAddress } from "../../kernel/ip/address.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { RawObject } from "../apiserver/storage.ts";
import { imageStart } from "../bench/daemon/image_start.ts";
import { residentOf } from "../bench/process_usage.ts";
import { quantile } from "../bench/statistics.ts";
import { createLab } from "../lab/lab.ts";
import { INET_TABLE } from "../../policyd/ruleset/table_part.ts";
import { ApiNode, slice, SERVICE } from "../support/daemon/api_node.ts";
import { roundsFor } from "../support/long_form.ts";
import { requireKernel } from "../support/privilege.ts";
import { TABLES } from "../support/services/random_node.ts";

const PORTS = roundsFor("ports of the large Service", 500, 5000);
const CHANGES = roundsFor("changes of the small Service", 20, 40);
const SLICES = 10;
const VIP = "10.96.200.1";
const MAP = TABLES.flatMap(({ sets }) => sets).find(({ name }) => name === "service4_1");

const LARGE: RawObject = {
  apiVersion: "v1",
  kind: "Service",
  metadata: { name: "large", namespace: "other" },
  spec: { type: "ClusterIP", clusterIP: VIP, clusterIPs: [VIP], ports: ports(1000) },
};

function ports(first: number): readonly object[] {
  return Array.from({ length: PORTS }, (_, i) => ({ name: `p${i}`, protocol: "TCP", port: first + i }));
}

/** One of the slices of the large Service, with five endpoints, the first of which differs in each version. */
function largeSlice(number: number, version: number): RawObject {
  const endpoints = [
    `10.200.${version >> 8}.${version & 255}`,
    ...[1, 2, 3, 4].map((last) => `10.201.${number}.${last}`),
  ];
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name: `large-${number}`, namespace: "other", labels: { "kubernetes.io/service-name": "large" } },
    addressType: "IPv4",
    ports: ports(8000),
    endpoints: endpoints.map((address) => ({
      addresses: [address],
      nodeName: "elsewhere",
      conditions: { ready: true },
    })),
  };
}

describe("a very large Service beside a small one", function () {
  this.timeout(300_000);
  before(function () {
    requireKernel(this);
  });

  it(`SHARE-10: a change of a Service is in force within a second while one of ${PORTS} ports and 50 endpoints of another namespace comes, changes and goes`, async () => {
    using lab = createLab("turns");
    const node = new ApiNode(lab);
    await using _end = { [Symbol.asyncDispose]: () => node.stop() };
    await node.prepare();
    await node.listen();
    await node.server.apply(SERVICE, slice("10.250.0.0"));
    const { nodeOptions, environment } = imageStart();
    Object.assign(process.env, environment);
    node.start(undefined, nodeOptions);
    await node.untilSynced();
    const kernel = node.wired.node.inside(() => new NftablesSocket(lab.calls));
    const isInForce = (address: string): boolean => {
      const value = Number(`0x${Buffer.from(addressToBytes(parseAddress(address))).toString("hex")}`);
      const elements = kernel.elements(INET_TABLE, MAP ?? assert.fail());
      return elements.some(({ data }) => Array.isArray(data) && data[0] === value);
    };
    let version = 0;
    const latencies = async (): Promise<number> => {
      const found: number[] = [];
      for (let left = CHANGES; left > 0; left--) {
        const address = `10.250.1.${++version}`;
        const start = performance.now();
        await node.server.apply(slice(address));
        while (!isInForce(address)) {
          assert.ok(performance.now() - start < 60_000, node.daemon.log());
          await pause(5);
        }
        found.push(performance.now() - start);
        await pause(100);
      }
      return Math.round(quantile(found, 0.95));
    };
    const found: number[] = [];
    await node.server.apply(LARGE, ...Array.from({ length: SLICES }, (_, number) => largeSlice(number, number)));
    found.push(await latencies());
    let flips = 0;
    const end = new AbortController();
    const flip = async (): Promise<void> => {
      for (; !end.signal.aborted; flips++) {
        await node.server.apply(largeSlice(flips % SLICES, SLICES + flips));
        await pause(500);
      }
    };
    const flipping = flip();
    found.push(await latencies());
    end.abort();
    await flipping;
    await node.server.apply({ ...LARGE, isGone: true });
    found.push(await latencies());
    const { peak } = residentOf(node.daemon.child.pid ?? 0) ?? assert.fail();
    kernel.close();
    console.log(`      p95 while it comes, changes and goes: ${found.join(", ")} ms; the daemon's peak: ${peak} MB`);
    assert.ok(flips > 1);
    for (const milliseconds of found) assert.ok(milliseconds < 1000, found.join());
  });
});
