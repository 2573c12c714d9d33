import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { type Address, addressPlus, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { requireKernel } from "../../support/privilege.ts";
import { type ManifestEndpoint, SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import {
  CLUSTER_IPS,
  familyOfResult,
  type Pair,
  pairOf,
  textsOf,
  TrafficLab,
} from "../../support/services/traffic_lab.ts";

const NODE_PORT = 40_080;
const CLIENTS = 20;
/** The first of adjacent addresses, which only the whole address distinguishes. */
const FIRST_CLIENT = pairOf("198.51.100.64", "2001:db8:c::40");

const OTHER_IPS = pairOf("10.96.1.0", "fd00:96::1:0");

describe("session affinity of many clients", function () {
  this.timeout(300_000);
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

  const lasting = (timeoutSeconds: number, name = "sticky", addresses = textsOf(CLUSTER_IPS)): string =>
    serviceManifest(name, addresses, on.at(on.near, on.far), {
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds } },
    });

  const listed = (): string => on.nodes.node1.node.exec("nft", ["--terse", "list", "table", "inet", "drawbridge"]);
  const mapCommand = (verb: "list" | "flush", family: 4 | 6): string =>
    on.nodes.node1.node.exec("nft", ["-j", verb, "map", "inet", "drawbridge", `client${family}`]);
  /** Forgets all clients: an entry that is there shows the timeout that it began with. */
  const forget = (): void => FAMILIES.forEach((family) => void mapCommand("flush", family));
  /** Returns the different timeouts of clients' entries, in seconds. */
  const timeoutsOf = (family: 4 | 6): readonly number[] => [
    ...new Set([...mapCommand("list", family).matchAll(/"timeout": (\d+),/g)].map(([, seconds]) => Number(seconds))),
  ];
  /** Returns the timeouts that rules write, in the order of the listing. */
  const written = (): readonly string[] =>
    [...listed().matchAll(/^\tchain remember_(\d+) /gm)].map(([, found = ""]) => found);

  /** Returns one flow of every client outside, in the order of the clients. */
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

  it("SA-04 SA-08: each address is a client of its own, whatever its ports and its neighbours' choices are", async () => {
    on.here.apply(sticky(on.at(on.near, on.far)));
    const first = await places(ofAll(CLUSTER_IPS));
    for (const [from, to] of [
      [0, CLIENTS],
      [CLIENTS, 2 * CLIENTS],
    ]) {
      // The chance that all 20 choose alike is one in 524,288.
      assert.equal(new Set(first.slice(from, to)).size, 2);
    }
    for (let round = 0; round < 2; round++) assert.deepEqual(await places(ofAll(CLUSTER_IPS)), first);
    assert.deepEqual(await places(ofAll(on.addressesOf("node1"), NODE_PORT)), first);
    // A new endpoint disturbs no client.
    on.here.apply(sticky(on.at(on.near, on.far, on.client)));
    assert.deepEqual(await places(ofAll(CLUSTER_IPS)), first);
    // When an endpoint goes, its clients have another one at their next connection, and the others stay.
    on.here.apply(sticky(on.at(on.near, on.client)));
    const next = await places(ofAll(CLUSTER_IPS));
    for (const [i, place] of first.entries()) {
      if (place === on.far.namespace) assert.notEqual(next[i], place);
      else assert.equal(next[i], place);
    }
  });

  it("SA-07: clients of a Service with policy Local stay with this node's endpoints, wherever other frontends lead them", async () => {
    const local = { externalTrafficPolicy: "Local" };
    const endpoints = on.at(on.near, on.client, on.far);
    on.here.apply(sticky(endpoints, local).replaceAll("sticky", "local"));
    const byPort = ofAll(on.addressesOf("node1"), NODE_PORT);
    const inCluster = await places(ofAll(CLUSTER_IPS));
    assert.ok(inCluster.includes(on.far.namespace));
    const results = await on.reach(byPort, [on.near, on.client]);
    for (const { flow, seenSource } of results) assert.equal(seenSource, flow.source);
    const chosen = results.map(({ seenBy }) => seenBy);
    // A client that was with an endpoint of this node stays there.
    for (const [i, place] of inCluster.entries()) if (place !== on.far.namespace) assert.equal(chosen[i], place);
    assert.deepEqual(await places(byPort), chosen);
    // The other frontends share this choice, since they serve the same client.
    assert.deepEqual(await places(ofAll(CLUSTER_IPS)), chosen);
  });

  it("SA-07 ETP-04: pods of the node stay with their endpoint, a far one too", async () => {
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

  it("SA-02 SA-03: clients that come within timeoutSeconds of their last connection stay, and later ones choose again", async () => {
    on.here.apply(lasting(3));
    let known = await places(ofAll(CLUSTER_IPS));
    // The rounds take longer together than the timeout, which begins again with each connection.
    let stayed = 0;
    let [last, tries] = [performance.now(), 0];
    while (stayed < 4 && tries++ < 20) {
      await sleep(1200);
      const now = performance.now();
      const found = await places(ofAll(CLUSTER_IPS));
      const isWithin = performance.now() - last < 2900;
      if (isWithin) assert.deepEqual(found, known);
      stayed = isWithin ? stayed + 1 : 0;
      [known, last] = [found, now];
    }
    assert.equal(stayed, 4, "the machine is too slow: no four rounds were within the timeout");
    await sleep(4000);
    // The chance that all 40 choose what they had is one in 2 to the 40th.
    assert.notDeepEqual(await places(ofAll(CLUSTER_IPS)), known);
  });

  it("SA-02: with timeoutSeconds of 1, 125, 10 801 and 86 399 an entry lasts exactly as long, which none of 77 steps would", async () => {
    for (const seconds of [1, 125, 10_801, 86_399]) {
      on.here.apply(lasting(seconds));
      forget();
      await places(ofAll(CLUSTER_IPS));
      // Entries of one second are gone before they can be listed.
      if (seconds > 1) for (const family of FAMILIES) assert.deepEqual(timeoutsOf(family), [seconds]);
      assert.deepEqual(written(), [String(seconds)]);
    }
  });

  it("SA-09: a changed timeoutSeconds leaves clients where they are, and counts from their next connection on", async () => {
    on.here.apply(lasting(125));
    const known = await places(ofAll(CLUSTER_IPS));
    on.here.apply(lasting(3));
    assert.deepEqual(await places(ofAll(CLUSTER_IPS)), known);
    assert.deepEqual(written(), ["3"]);
    await sleep(4000);
    assert.notDeepEqual(await places(ofAll(CLUSTER_IPS)), known);
  });

  it("SA-08: a restart of the daemon leaves clients where they are, whatever other timeouts came and went before", async () => {
    // Timeouts that differ by 127 compete for a number, which the other one gets after the start.
    on.here.apply(lasting(400, "other", textsOf(OTHER_IPS)));
    on.here.apply(`${lasting(400, "other", textsOf(OTHER_IPS))}${lasting(273)}`);
    const known = await places(ofAll(CLUSTER_IPS));
    on.here.apply(lasting(273));
    on.here.restart({});
    assert.deepEqual(await places(ofAll(CLUSTER_IPS)), known);
    assert.deepEqual(written(), ["273"]);
  });

  it("SA-10: 127 timeouts have rules, one of 128 lasts only as long as the next shorter, and no rules stay when they end", async () => {
    const many = (count: number): string =>
      Array.from({ length: count }, (_, i) => {
        const addresses = FAMILIES.map((family) =>
          formatAddress(addressPlus(OTHER_IPS[family], BigInt(i + 1)) ?? OTHER_IPS[family]),
        );
        return lasting(1001 + i, `of-${1001 + i}`, addresses);
      }).join("");
    on.here.apply(many(126) + lasting(900));
    assert.equal(written().length, 127);
    assert.ok(written().includes("1126"));
    on.here.apply(many(127) + lasting(900));
    assert.equal(written().length, 127);
    // 900, 1020 and 1080 are whole minutes; the longest of the others loses its rules.
    assert.ok(!written().includes("1127") && written().includes("1126"));
    on.route([OTHER_IPS].map((pair) => pairOf(...lastOf(pair))));
    forget();
    const last = pairOf(...lastOf(OTHER_IPS));
    await places(ofAll(last));
    for (const family of FAMILIES) assert.deepEqual(timeoutsOf(family), [1126]);
    on.here.apply(many(125) + lasting(1127));
    assert.ok(written().includes("1127") && !written().includes("1126"));
    on.here.apply("");
    assert.deepEqual(written(), []);
    assert.doesNotMatch(listed(), /: jump remember_/);
  });
});

/** Returns the addresses of the last of 127 Services, the first of which has the ones after this pair. */
function lastOf(pair: Pair): readonly [string, string] {
  const [v4, v6] = FAMILIES.map((family) => formatAddress(addressPlus(pair[family], 127n) ?? pair[family]));
  return [v4 ?? "", v6 ?? ""];
}
