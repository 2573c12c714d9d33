import assert from "node:assert/strict";
import type { Address } from "../../kernel/ip/address.ts";
import { addressPlus, formatAddress } from "../../kernel/ip/address.ts";
import type { Flow } from "../lab/probe/prober.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { requireKernel } from "../support/privilege.ts";
import type { ManifestEndpoint } from "../support/services/manifest.ts";
import { SERVICE_PORT, serviceManifest } from "../support/services/manifest.ts";
import type { Pair } from "../support/services/traffic_lab.ts";
import { CLUSTER_IPS, FAMILIES, familyOfResult, pairOf, textsOf, TrafficLab } from "../support/services/traffic_lab.ts";

const NODE_PORT = 40_080;
const CLIENTS = 24;
/** Side by side, so that nothing less than the whole address tells them apart. */
const FIRST_CLIENT = pairOf("198.51.100.64", "2001:db8:c::40");

describe("session affinity of many clients", function () {
  this.timeout(60_000);
  let on: TrafficLab;

  before(function () {
    requireKernel(this);
    on = new TrafficLab("affinity", false);
    on.route([CLUSTER_IPS]);
    for (const address of clients().flat()) {
      on.nodes.router.exec("ip", ["address", "add", formatAddress(address), "dev", "lo", "nodad"]);
    }
  });

  after(() => on?.[Symbol.dispose]());

  function clients(): readonly (readonly Address[])[] {
    return FAMILIES.map((family) =>
      Array.from({ length: CLIENTS }, (_, i) => addressPlus(FIRST_CLIENT[family], BigInt(i)) ?? FIRST_CLIENT[family]),
    );
  }

  const sticky = (endpoints: readonly ManifestEndpoint[], spec: Readonly<Record<string, unknown>> = {}): string =>
    serviceManifest("sticky", textsOf(CLUSTER_IPS), endpoints, { sessionAffinity: "ClientIP", ...spec }, NODE_PORT);

  /** One flow of every client outside, in the order of the clients. */
  const ofAll = (to: Pair, port = SERVICE_PORT): readonly Flow[] =>
    clients().flatMap((ofFamily, i) =>
      ofFamily.map((source) => ({
        protocol: "tcp",
        from: on.nodes.router,
        source,
        to: { address: to[i === 0 ? 4 : 6], port },
      })),
    );

  const places = async (flows: readonly Flow[]): Promise<readonly (LabNamespace | undefined)[]> =>
    (await on.reach(flows, [on.near, on.far, on.client])).map(({ seenBy }) => seenBy);

  it("SA-04: each address is a client of its own, whatever its ports, and neighbours are no relatives", async () => {
    on.here.apply(sticky(on.at(on.near, on.far)));
    const first = await places(ofAll(CLUSTER_IPS));
    for (const [from, to] of [
      [0, CLIENTS],
      [CLIENTS, 2 * CLIENTS],
    ]) {
      // That all 24 choose alike happens one time in eight million.
      assert.equal(new Set(first.slice(from, to)).size, 2);
    }
    for (let round = 0; round < 4; round++) assert.deepEqual(await places(ofAll(CLUSTER_IPS)), first);
    assert.deepEqual(await places(ofAll(on.addressesOf("node1"), NODE_PORT)), first);
  });

  it("SA-07: clients of a Local Service stay among this node's endpoints, wherever other ways lead them", async () => {
    const local = { externalTrafficPolicy: "Local" };
    const endpoints = on.at(on.near, on.client, on.far);
    on.here.apply(sticky(endpoints, local).replaceAll("sticky", "local"));
    const byPort = ofAll(on.addressesOf("node1"), NODE_PORT);
    const inCluster = await places(ofAll(CLUSTER_IPS));
    assert.ok(inCluster.includes(on.far.namespace));
    const results = await on.reach(byPort, [on.near, on.client]);
    for (const { flow, seenSource } of results) assert.equal(seenSource, flow.source);
    const chosen = results.map(({ seenBy }) => seenBy);
    // Who was with an endpoint of this node stays there.
    for (const [i, place] of inCluster.entries()) if (place !== on.far.namespace) assert.equal(chosen[i], place);
    for (let round = 0; round < 3; round++) assert.deepEqual(await places(byPort), chosen);
    // They share it with the other ways, since it is any client's.
    assert.deepEqual(await places(ofAll(CLUSTER_IPS)), chosen);
  });

  it("SA-07 ETP-04: pods of the node stay with any endpoint, far ones too", async () => {
    const local = { externalTrafficPolicy: "Local" };
    on.here.apply(sticky(on.at(on.far), local));
    const flows = () => on.flows(on.client.namespace, on.addressesOf("node1"), { port: NODE_PORT });
    await on.reach(flows(), [on.far], on.client.addresses);
    on.here.apply(sticky(on.at(on.near, on.far), local));
    for (let round = 0; round < 8; round++) {
      for (const result of await on.reach(flows(), [on.far])) {
        assert.equal(result.seenSource, on.client.addresses[familyOfResult(result)]);
      }
    }
  });
});
