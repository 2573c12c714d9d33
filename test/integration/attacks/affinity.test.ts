import assert from "node:assert/strict";
import { type Address, addressPlus, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { INET_TABLE } from "../../../policyd/ruleset/table_part.ts";
import { affinity, clientMap } from "../../../policyd/services/rules/affinity_part.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { UPLINK } from "../../lab/topology.ts";
import { Flood, type FloodTurn } from "../../support/daemon/flood.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { requireKernel } from "../../support/privilege.ts";
import { SERVICE_PORT, serviceManifest } from "../../support/services/manifest.ts";
import { CLUSTER_IPS, pairOf, textsOf, TrafficLab } from "../../support/services/traffic_lab.ts";

const CLIENTS = 20;
const FIRST_CLIENT = pairOf("198.51.100.64", "2001:db8:c::40");
const CALM_IPS = pairOf("10.96.0.11", "fd00:96::b");
/** The numbers of spoofed sources: more than the map of clients holds (262,144), and more than are remembered of a port. */
const FILLING = 270_000;
const EXCEEDING = 60_000;
const FIRST_SPOOFED = pairOf("11.0.0.1", "2001:db8:bad::1");
/** How many clients of one port are remembered within one timeout: 8,192 at once and twice as many later. */
const MOST_OF_PORT = 3 * 8192;

/** A node that serves two Services with affinity, and an outsider that sends to one of them from any source. */
class AttackedNode {
  readonly lab: TrafficLab;

  constructor(name: string) {
    this.lab = new TrafficLab(name, false);
    const { router, node1 } = this.lab.nodes;
    this.lab.route([CLUSTER_IPS, CALM_IPS]);
    for (const address of clients().flat()) {
      router.exec("ip", ["address", "add", formatAddress(address), "dev", "lo", "nodad"]);
    }
    // Nobody answers the outsider's packets, so conntrack need not remember them longer.
    node1.node.writeSysctl("net/netfilter/nf_conntrack_udp_timeout", "1");
    const { near, far } = this.lab;
    const service = (serviceName: string, addresses: readonly string[]): string =>
      serviceManifest(serviceName, addresses, this.lab.at(near, far), { sessionAffinity: "ClientIP" });
    this.lab.here.apply(`${service("attacked", textsOf(CLUSTER_IPS))}\n---\n${service("calm", textsOf(CALM_IPS))}`);
  }

  /** Returns the server that a connection of each client of the calm Service reaches. */
  async places(family: 4 | 6): Promise<readonly (string | undefined)[]> {
    const flows = clients().flatMap((ofFamily, i): readonly Flow[] =>
      (i === 0 ? 4 : 6) !== family
        ? []
        : ofFamily.map((source) => ({
            protocol: "tcp",
            from: this.lab.nodes.router,
            source,
            to: { address: CALM_IPS[family], port: SERVICE_PORT },
          })),
    );
    const { near, far } = this.lab;
    return (await this.lab.reach(flows, [near, far])).map(({ seenBy }) => seenBy?.name);
  }

  /** Sends datagrams to a port of the attacked Service, each from another source. */
  async attack(family: 4 | 6, count: number): Promise<void> {
    const { router, node1 } = this.lab.nodes;
    using flood = new Flood(router, "to-node1", node1.node.link(UPLINK).mac ?? assert.fail());
    await flood.send({ from: FIRST_SPOOFED[family], to: CLUSTER_IPS[family] }, sources(family, count));
  }

  /** Returns the number of clients that are remembered. nft takes half a minute to list a full map. */
  remembered(family: 4 | 6): number {
    const { node } = this.lab.nodes.node1;
    const map = affinity().sets?.find(({ name }) => name === clientMap(family)) ?? assert.fail();
    const kernel = node.inside(() => new NftablesSocket(node.calls));
    try {
      let count = 0;
      for (const elements of kernel.elementsInPieces(INET_TABLE, map)) count += elements.length;
      return count;
    } finally {
      kernel.close();
    }
  }

  nft(...args: readonly string[]): string {
    return this.lab.nodes.node1.node.exec("nft", args);
  }
}

function clients(): readonly (readonly Address[])[] {
  return FAMILIES.map((family) =>
    Array.from({ length: CLIENTS }, (_, i) => addressPlus(FIRST_CLIENT[family], BigInt(i)) ?? FIRST_CLIENT[family]),
  );
}

function* sources(family: 4 | 6, count: number): Generator<FloodTurn> {
  for (let i = 0; i < count; i++) {
    const from = addressPlus(FIRST_SPOOFED[family], BigInt(i)) ?? assert.fail();
    yield { sourcePort: 4000, destinationPort: SERVICE_PORT, from };
  }
}

describe("session affinity under attack", function () {
  this.timeout(300_000);

  before(function () {
    requireKernel(this);
  });

  it("a flood from spoofed sources ends the affinity of another Service's clients if new clients have no rate", async function () {
    requireLongForm(this, "filling the map takes too long");
    const open = new AttackedNode("affinity-open");
    try {
      open.nft("flush chain inet drawbridge admit_10800; add rule inet drawbridge admit_10800 goto remember_10800");
      await open.attack(4, FILLING);
      assert.ok(open.remembered(4) >= 262_144, `${open.remembered(4)} clients: the attack did not work`);
      const places = await open.places(4);
      // All 20 clients choose the same servers again in one of a million cases.
      assert.notDeepEqual(await open.places(4), places);
    } finally {
      open.lab[Symbol.dispose]();
    }
  });

  it("SA-11: a flood from spoofed sources does not end the affinity of another Service's clients", async () => {
    for (const family of FAMILIES) {
      const bounded = new AttackedNode(`affinity-bound${family}`);
      try {
        await bounded.attack(family, EXCEEDING);
        const entries = bounded.remembered(family);
        assert.ok(entries >= 8192 && entries <= MOST_OF_PORT, `IPv${family}: ${entries} clients are remembered`);
        const places = await bounded.places(family);
        assert.deepEqual(await bounded.places(family), places);
      } finally {
        bounded.lab[Symbol.dispose]();
      }
    }
  });
});
