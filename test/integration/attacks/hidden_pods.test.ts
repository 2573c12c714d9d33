import assert from "node:assert/strict";
import { type Address, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { namedLab, type NamedPods, namedPods } from "../../support/policy/lab/named_lab.ts";
import { NODE_NAMES, textsOf } from "../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../support/policy/lab/policy_lab.ts";
import { serviceObjects } from "../../support/services/manifest.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { clusterNetworkPolicy, labelled } from "../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../support/privilege.ts";

/** Attackers, pods that may speak to the victims, and victims, each on both nodes. */
const PODS: NamedPods = Object.fromEntries(
  ["denied", "other", "victim"].flatMap((namespace) =>
    NODE_NAMES.map((node) => [`${namespace}/${node}`, { node }] as const),
  ),
);
const DENY = clusterNetworkPolicy("hidden", {
  tier: "Admin",
  priority: 1,
  subject: { namespaces: labelled({ project: "victim" }) },
  ingress: [{ action: "Deny", from: [{ namespaces: labelled({ project: "denied" }) }] }],
});
const POLICIES = ["Cluster", "Local"] as const;
const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;
const PORT = 80;

/** A Service with a victim, and the way to it. */
interface Way {
  readonly title: string;
  readonly shot: Flow;
}

for (const masquerade of [true, false]) {
  describe(`attacks by pods that Services might hide, masquerade ${masquerade}`, function () {
    this.timeout(300_000);
    let lab: PolicyLab;

    before(async function () {
      requireKernel(this);
      requireBridgeNetfilter(this);
      lab = await namedLab(`hidden-pods-${masquerade}`, PODS, [PORT], { masquerade });
    });
    after(() => lab?.close());

    const numberOf = (node: string, policy: string): number =>
      2 * NODE_NAMES.findIndex((name) => name === node) + POLICIES.findIndex((one) => one === policy) + 1;
    const ips = (kind: "c" | "e" | "b", number: number): readonly [string, string] => {
      const first = { c: "10.96.0", e: "192.0.2", b: "198.51.100" }[kind];
      return [`${first}.${number}`, `fd00:${kind}::${number}`];
    };

    /** Returns a Service with a frontend of each kind for each victim and policy; each port of a node is one's. */
    const services = (): readonly object[] =>
      NODE_NAMES.flatMap((nodeName) =>
        POLICIES.flatMap((policy) => {
          const number = numberOf(nodeName, policy);
          const { addresses } = lab.place(`victim/${nodeName}`);
          const spec = {
            type: "LoadBalancer",
            status: { loadBalancer: { ingress: ips("b", number).map((ip) => ({ ip })) } },
            externalTrafficPolicy: policy,
            externalIPs: [...ips("e", number), ...NODE_NAMES.flatMap((node) => textsOf(lab.place(node)))],
          };
          const ports = PROTOCOLS.map((protocol) => {
            return { protocol, port: 1000 + number, targetPort: PORT, nodePort: 30_000 + number };
          });
          const key = `victim/s${number}`;
          return serviceObjects(key, ips("c", number), ports, [{ addresses, nodeName }], spec);
        }),
      );

    /** Returns all ways of pods of a namespace to all victims. */
    const ways = (namespace: string): readonly Way[] =>
      NODE_NAMES.flatMap((from) =>
        NODE_NAMES.flatMap((at) =>
          POLICIES.flatMap((policy) =>
            FAMILIES.flatMap((family) => {
              const number = numberOf(at, policy);
              const own = (kind: "c" | "e" | "b"): Address => parseAddress(ips(kind, number)[family === 4 ? 0 : 1]);
              const ofNodes = NODE_NAMES.flatMap((node) => {
                const { addresses, gateways } = lab.wired(node);
                const both = [addresses[family === 4 ? 0 : 1], gateways[family === 4 ? 0 : 1]] as const;
                return [
                  ...both.map((address, isBridge) => ({
                    frontend: `node port of ${node}${isBridge ? "'s bridge" : ""}`,
                    address,
                    port: 30_000 + number,
                  })),
                  { frontend: `external IP of ${node}`, address: both[0], port: 1000 + number },
                ];
              });
              const all = [
                { frontend: "pod", address: lab.place(`victim/${at}`).addresses[family], port: PORT },
                { frontend: "cluster IP", address: own("c"), port: 1000 + number },
                { frontend: "external IP", address: own("e"), port: 1000 + number },
                { frontend: "balancer", address: own("b"), port: 1000 + number },
                ...ofNodes,
              ];
              return all.flatMap(({ frontend, address, port }) =>
                (["tcp", "udp", "sctp"] as const).map((protocol): Way => ({
                  title: `${namespace}/${from} by ${frontend} to ${at}, ${policy}, IPv${family} ${protocol}`,
                  shot: { protocol, from: lab.place(`${namespace}/${from}`).namespace, to: { address, port } },
                })),
              );
            }),
          ),
        ),
      );

    /** With policy Local a node that has no endpoint drops what pods of other nodes send to its node ports. */
    const isDropped = ({ title }: Way): boolean => {
      const [, from, asked, at] = /\/(\S+) by node port of (node\d).* to (\S+), Local/.exec(title) ?? [];
      return asked !== undefined && asked !== at && asked !== from;
    };

    /** Sends by all ways; returns the titles of those by which a victim received something. */
    async function received(all: readonly Way[]): Promise<readonly string[]> {
      const results = await lab.prober.run(all.map(({ shot }) => shot));
      return all.flatMap(({ title }, index) => (results[index]?.seenBy === undefined ? [] : [title]));
    }

    it("XIP-02 NODE-07 NODE-12 LB-04: a pod that an Admin rule denies reaches a victim by no frontend, on its node or another one", async () => {
      const objects = [...namedPods(lab, PODS), ...services()];
      const [denied, other] = ["denied", "other"].map((name) => ways(name).filter((way) => !isDropped(way)));
      assert.ok(denied !== undefined && other !== undefined);
      const titles = (all: readonly Way[]): readonly string[] => all.map(({ title }) => title);
      await lab.apply(objects);
      assert.deepEqual(await received(denied), titles(denied), "without the rule");
      await lab.apply([...objects, DENY]);
      for (const seen of await lab.inBothStates(() => received(denied))) assert.deepEqual(seen, [], "with the rule");
      assert.deepEqual(await received(other), titles(other), "pods that no rule denies");
    });
  });
}
