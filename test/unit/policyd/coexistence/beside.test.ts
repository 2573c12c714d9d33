import assert from "node:assert/strict";
import { FakeKernelNotifications } from "../../../support/daemon/fake_notifications.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { AttachmentRegistry } from "../../../../policyd/attachments/registry.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { NeighbouringPods } from "../../../../policyd/coexistence/neighbouring_pods.ts";
import type { BesideKernel } from "../../../../policyd/coexistence/beside_kernel.ts";
import {
  type BesideEntries,
  besideEntries,
  type NeighbouringBridge,
  neighbouringBridges,
} from "../../../../policyd/coexistence/neighbouring_bridges.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { attachmentRecord } from "../../../support/cni/attachment_record.ts";

const FLANNEL: NeighbouringBridge = {
  index: 7,
  name: "cni0",
  networks: ["10.244.1.1/24", "fd00:244:1::1/64"].map((one) => parseCidr(one)),
};

function routesOf({ routes }: BesideEntries): readonly string[] {
  return routes.map(({ destination, index }) => `${formatCidr(destination)} ${index ?? "ours"}`).toSorted();
}

/** A kernel with these bridges, which counts reads and changes. */
class FakeBesideKernel implements BesideKernel {
  present: BesideEntries = { routes: [], proxies: [] };
  found: readonly NeighbouringBridge[] = [];
  reads = 0;
  changes = 0;
  refusals: readonly string[] = [];
  links = (): readonly never[] => [];
  bridges = (): readonly NeighbouringBridge[] => this.found;
  close = (): void => {};

  read(): BesideEntries {
    this.reads++;
    return this.present;
  }

  apply({ added, removed }: Parameters<BesideKernel["apply"]>[0]): readonly string[] {
    this.changes++;
    if (this.refusals.length > 0) return this.refusals;
    const isKept =
      <T>(gone: readonly T[]) =>
      (one: T): boolean =>
        !gone.some((other) => JSON.stringify(other, text) === JSON.stringify(one, text));
    this.present = {
      routes: [...this.present.routes.filter(isKept(removed.routes)), ...added.routes],
      proxies: [...this.present.proxies.filter(isKept(removed.proxies)), ...added.proxies],
    };
    return [];
  }
}

function text(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? String(value) : value;
}

describe("policyd/coexistence: bridges beside ours", () => {
  let kernel: FakeBesideKernel;
  let clock: FakeClock;
  let attachments: AttachmentRegistry;
  let events: FakeKernelNotifications;
  let beside: NeighbouringPods;

  beforeEach(() => {
    kernel = new FakeBesideKernel();
    clock = new FakeClock();
    attachments = new AttachmentRegistry();
    events = new FakeKernelNotifications();
    beside = new NeighbouringPods({
      kernel,
      bridge: "drawbridge0",
      attachments,
      clock,
      logger: recordingLogger(),
      syncPeriod: 30_000,
    });
  });

  it("FOREIGN-03: neighbouring bridges are other bridges with a network, not ours, other links or single addresses", () => {
    const links = [
      { index: 1, name: "eth0", kind: undefined },
      { index: 2, name: "drawbridge0", kind: "bridge" },
      { index: 7, name: "cni0", kind: "bridge" },
      { index: 8, name: "veth1", kind: "veth" },
    ];
    const addresses = [
      [1, "10.0.0.1/8"],
      [2, "10.244.1.1/24"],
      [7, "10.244.1.1/24"],
      [7, "10.244.1.9/32"],
      [8, "10.244.1.1/24"],
    ] as const;
    const found = neighbouringBridges(
      links,
      addresses.map(([index, address]) => ({ index, address: parseCidr(address) })),
      "drawbridge0",
    );
    assert.deepEqual(
      found.map(({ name, networks }) => [name, networks.map(formatCidr)]),
      [["cni0", ["10.244.1.1/24"]]],
    );
  });

  it("FOREIGN-03: a pod in another bridge's network has its own route and proxy, and both halves lead to that bridge", () => {
    const pods = ["10.244.1.2", "10.244.9.9", "fd00:244:1::2"].map((one) => parseAddress(one));
    const docker = { index: 9, name: "docker0", networks: [parseCidr("172.17.0.1/16")] };
    const entries = besideEntries(pods, [docker, FLANNEL]);
    assert.deepEqual(routesOf(entries), [
      "10.244.1.0/25 7",
      "10.244.1.128/25 7",
      "10.244.1.2/32 ours",
      "fd00:244:1:0:8000::/65 7",
      "fd00:244:1::/65 7",
      "fd00:244:1::2/128 ours",
    ]);
    assert.deepEqual(
      entries.proxies,
      [pods[0], pods[2]].map((address) => ({ index: 7, address })),
    );
    const narrow = { ...FLANNEL, networks: [parseCidr("10.244.1.2/31")] };
    assert.deepEqual(routesOf(besideEntries(pods, [narrow])), ["10.244.1.2/32 ours"]);
    assert.deepEqual(besideEntries(pods, [docker]), { routes: [], proxies: [] });
  });

  it("FOREIGN-03: without another bridge, registering a pod reads and changes nothing in the kernel", async () => {
    beside.begin();
    const record = attachmentRecord();
    attachments.add(record);
    await beside.register(record);
    await beside.unregister(record);
    assert.deepEqual([kernel.reads, kernel.changes], [0, 0]);
  });

  it("FOREIGN-03: entries appear when a pod is registered, and go with the pod or with the other bridge", async () => {
    kernel.found = [FLANNEL];
    beside.begin();
    const [first, second] = [
      attachmentRecord(),
      attachmentRecord({ containerId: "b", addresses: [parseCidr("10.244.1.3/32")] }),
    ];
    for (const record of [first, second]) {
      attachments.add(record);
      await beside.register(record);
    }
    assert.equal(routesOf(kernel.present).filter((one) => one.endsWith("ours")).length, 3);
    await beside.unregister(first);
    attachments.remove(first);
    assert.deepEqual(routesOf(kernel.present), ["10.244.1.0/25 7", "10.244.1.128/25 7", "10.244.1.3/32 ours"]);
    assert.equal(kernel.present.proxies.length, 1);
    await beside.start(events);
    kernel.found = [];
    clock.pass(30_000);
    assert.deepEqual(kernel.present, { routes: [], proxies: [] });
    await beside.stop();
  });

  it("FOREIGN-03: an entry that the kernel refuses is in the status and is retried at the next sync", async () => {
    kernel.found = [FLANNEL];
    kernel.refusals = ["no buffer space"];
    const record = attachmentRecord();
    attachments.add(record);
    beside.begin();
    assert.match(beside.problems().join(), /cni0 are not reached: no buffer space/);
    kernel.refusals = [];
    clock.pass(30_000);
    assert.deepEqual(beside.problems(), []);
    assert.equal(kernel.present.routes.length, 6);
  });
});
