import assert from "node:assert/strict";
import { PORTLESS_REASON } from "../../../cni/node_rules/masquerade.ts";
import { type Address, type Family, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { add } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { type TwoNodes, twoNodes } from "../../lab/topology.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";

type Way = "hidden by policyd" | "hidden by ipMasq";

/** The port of the node's own service, for example its DNS server. */
const NODE_SERVICE = 53;
/** The port of a client outside that asks the service. It is known in advance, as with IKE and NTP. */
const CLIENT = 500;
/** The lowest port with which a pod's flow may leave: a share of policyd (POD-25) begins above the system ports. */
const LOWEST: Readonly<Record<Way, number>> = { "hidden by policyd": 1024, "hidden by ipMasq": 32_768 };
/** Protocols without ports, which tunnels and IPsec of the node use. */
const PORTLESS = { "IP in IP": 4, GRE: 47, ESP: 50 } as const;
/** One more of these. A flow of the node that the other attempts leave would keep a pod from its protocol. */
const ETHERNET_IN_IP = 97;
/** Room for the header of such a protocol, which neither end reads. */
const HEADER = new Uint8Array(32);
/** The last port below 512. The kernel gives a flow from such a port another one (nf_nat_l4proto_unique_tuple). */
const SYSTEM_PORTS = 511;

/** The table and the chain of each way of hiding. */
const chains: Readonly<Record<Way, (family: Family) => readonly [string, string]>> = {
  "hidden by policyd": (family: Family) => ["drawbridge", `masquerade_cluster${family}`],
  "hidden by ipMasq": () => ["drawbridge-cni", "postrouting"],
};

interface Party {
  readonly namespace: LabNamespace;
  readonly addresses: readonly Address[];
}

describe("attacks by pods that leave with the node's address", function () {
  this.timeout(300_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  let pods: Readonly<Record<Way, Party & { readonly namespace: LabPod }>>;

  before(async function () {
    lab = suiteLab(this, "masquerade-attacks");
    nodes = twoNodes(lab);
    policyd = new PolicydNode(lab, nodes.node1);
    policyd.put("node1.json", JSON.stringify(nodeOf(nodes.node1)));
    // The daemon starts with `--encapsulation=never`.
    await policyd.start();
    pods = {
      "hidden by policyd": attach("a1", nodes.node1, policyd.overrides),
      "hidden by ipMasq": attach("b2", nodes.node2, { ipMasq: true }),
    };
    await policyd.kill();
  });

  function attach(name: string, on: TwoNodes["node1"], overrides: Parameters<typeof add>[2]) {
    const namespace = lab.pod(name);
    const { ips } = podResult(add(on, namespace, overrides));
    return { namespace, addresses: ips.map(({ address }) => parseCidr(address).address) };
  }

  const own = ({ addresses }: Pick<Party, "addresses">, family: Family): Address => {
    const found = addresses.find((address) => familyOf(address) === family);
    assert.ok(found !== undefined);
    return found;
  };

  for (const [way, place] of [
    ["hidden by policyd", "node1"],
    ["hidden by ipMasq", "node2"],
  ] as const) {
    for (const family of FAMILIES) {
      it(`GUARD-12: a pod ${way} takes no packet that is for its node's own service, IPv${family}`, async () => {
        const wired = nodes[place];
        const pod = pods[way];
        const outside: Party = { namespace: nodes.router, addresses: wired.routerAddresses };
        const socketOf = ({ namespace, addresses }: Party, port: number): ProbeSocket => {
          const socket = ProbeSocket.open(namespace, family, SocketType.DATAGRAM);
          socket.bind({ address: own({ addresses }, family), port });
          return socket;
        };
        const service = socketOf({ namespace: wired.node, addresses: wired.addresses }, NODE_SERVICE);
        /**
         * Sends from the pod's ports to a port outside, and a packet from there to the node's service.
         *
         * @returns who took the packet, and the lowest port with which the pod was seen
         */
        const attack = async (port: number): Promise<{ readonly taker: string; readonly lowest: number }> => {
          const client = socketOf(outside, port);
          const senders = Array.from({ length: SYSTEM_PORTS }, (_, index) => socketOf(pod, index + 1));
          const seen: number[] = [];
          const look = (): void => {
            for (const next of client.drain()) if (next.kind === "data" && next.from) seen.push(next.from.port);
          };
          try {
            for (const sender of senders) {
              sender.sendTo(newToken(), { address: own(outside, family), port });
              look();
            }
            // The kernel tries 128 ports for a flow: a few of the last flows find no free one.
            const areMost = (): boolean => (look(), seen.length > SYSTEM_PORTS * 0.9);
            assert.ok(await eventually(areMost), `${seen.length} of ${SYSTEM_PORTS} arrive`);
            const token = newToken();
            const has = (socket: ProbeSocket): boolean =>
              [...socket.drain()].some((next) => next.kind === "data" && carries(next.data, token));
            client.sendTo(token, { address: own(wired, family), port: NODE_SERVICE });
            let taker = "nobody";
            await eventually(() => {
              if (has(service)) taker = "the node";
              if (senders.some(has)) taker = "the pod";
              return taker !== "nobody";
            });
            return { taker, lowest: Math.min(...seen) };
          } finally {
            for (const socket of [client, ...senders]) socket.close();
          }
        };
        const guarded = await attack(CLIENT);
        assert.equal(guarded.taker, "the node");
        assert.ok(guarded.lowest >= LOWEST[way], `port ${guarded.lowest}`);

        const [table, chain] = chains[way](family);
        const rules = wired.node.exec("nft", ["list", "chain", "inet", table, chain]);
        assert.match(rules, /masquerade to :32768-65535 fully-random/);
        const unbounded = rules.replaceAll(/^.*@port_shares.*\n/gm, "").replaceAll(/ to :32768-65535/g, "");
        const replace = (text: string): void => {
          wired.node.exec("nft", ["-f", "-"], `flush chain inet ${table} ${chain}\n${text}`);
        };
        replace(unbounded);
        try {
          const exposed = [await attack(CLIENT + 1), await attack(CLIENT + 2)];
          assert.ok(
            exposed.some(({ taker }) => taker === "the pod"),
            "with the ports that the kernel chooses the pod takes the packet",
          );
        } finally {
          replace(rules);
          service.close();
        }
      });

      it(`GUARD-15: a pod ${way} takes no packet of a protocol without ports that is for its node, IPv${family}`, async () => {
        const wired = nodes[place];
        const [table, chain] = chains[way](family);
        const rules = (): string => wired.node.exec("nft", ["list", "chain", "inet", table, chain]);
        const dropRule = new RegExp(`counter packets (\\d+) bytes \\d+ drop comment "${PORTLESS_REASON}"`, "g");
        const dropped = (): number =>
          [...rules().matchAll(dropRule)].reduce((sum, [, packets]) => sum + Number(packets), 0);
        /**
         * Sends a packet of a protocol from the pod to a host outside, and one from there to the node.
         *
         * @returns who took the second one
         */
        const attack = async (protocol: number, isGuarded: boolean): Promise<string> => {
          const open = (namespace: LabNamespace): ProbeSocket =>
            ProbeSocket.open(namespace, family, SocketType.RAW, protocol);
          const [attacker, service, outside] = [open(pods[way].namespace), open(wired.node), open(nodes.router)];
          const has = (socket: ProbeSocket, token: Uint8Array): boolean =>
            [...socket.drain()].some((next) => next.kind === "data" && carries(next.data, token));
          const send = (from: ProbeSocket, addresses: readonly Address[]): Uint8Array => {
            const token = newToken();
            from.sendTo(Uint8Array.of(...HEADER, ...token), { address: own({ addresses }, family), port: 0 });
            return token;
          };
          try {
            const before = dropped();
            const first = send(attacker, wired.routerAddresses);
            const isDone = (): boolean => (isGuarded ? dropped() > before : has(outside, first));
            assert.ok(await eventually(isDone), isGuarded ? "the pod's packet is counted" : "it leaves");
            const token = send(outside, wired.addresses);
            let taker = "nobody";
            await eventually(() => {
              if (has(service, token)) taker = "the node";
              if (has(attacker, token)) taker = "the pod";
              return taker !== "nobody";
            });
            return taker;
          } finally {
            for (const socket of [attacker, service, outside]) socket.close();
          }
        };
        const guarded = rules();
        const replace = (text: string): void => {
          wired.node.exec("nft", ["-f", "-"], `flush chain inet ${table} ${chain}\n${text}`);
        };
        for (const [name, protocol] of Object.entries(PORTLESS)) {
          assert.equal(await attack(protocol, true), "the node", name);
        }
        replace(guarded.replaceAll(dropRule, "masquerade fully-random"));
        try {
          assert.equal(await attack(ETHERNET_IN_IP, false), "the pod", "without the rule");
        } finally {
          replace(guarded);
        }
      });
    }
  }
});
