import assert from "node:assert/strict";
import { familyOf, formatAddress } from "../../../../kernel/ip/address.ts";
import { routeExceptions } from "../../../lab/probe/counters.ts";
import { setBridgeNetfilter, UPLINK } from "../../../lab/topology.ts";
import { expectOf, expectPackets } from "../../../support/policy/lab/expectation.ts";
import { largeDatagram } from "../../../support/policy/lab/large_datagrams.ts";
import { namedLab, type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import { listenAll } from "../../../support/policy/lab/nine_pods.ts";
import { FAMILIES, namespaceManifest, podObject, textsOf } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, inBoth, type Traffic } from "../../../support/policy/lab/question.ts";
import { labelled, networkPolicy } from "../../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

const PODS: NamedPods = {
  "x/a": { node: "node1" },
  "y/a": { node: "node1" },
  "y/b": { node: "node2" },
  "z/a": { node: "node2" },
};
const PORTS = [80, 81] as const;
const TRAFFIC: readonly Traffic[] = ["80/TCP", "80/UDP", "80/SCTP", "ICMP"];
/** The MTU of the router's link to node2, and the size of the datagrams that are sent. */
const SMALL_MTU = 1280;
const LARGE_BYTES = 1400;

const onlyFrom = (namespace: string): object =>
  networkPolicy("x", {
    podSelector: {},
    policyTypes: ["Ingress", "Egress"],
    ingress: [{ from: [{ namespaceSelector: labelled({ project: namespace }) }] }],
  });

describe("policies and packets after the first one of a flow", function () {
  this.timeout(60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("flows", PODS, PORTS);
  });
  after(() => lab?.close());

  it("POL-08: answers need no rule for their direction, and allow no connection in it", async () => {
    await expectOf(lab, [...namedPods(lab, PODS), onlyFrom("y")], {
      allowed: [...inBoth("y/a", "x/a", ...TRAFFIC), ...inBoth("y/b", "x/a", ...TRAFFIC)],
      denied: [
        ...inBoth("x/a", "y/a", ...TRAFFIC),
        ...inBoth("x/a", "y/b", ...TRAFFIC),
        ...inBoth("z/a", "x/a", ...TRAFFIC),
      ],
    });
    const long = ["y/a", "y/b"].flatMap((from) =>
      FAMILIES.map((family) => ({
        protocol: "tcp" as const,
        from: lab.place(from).namespace,
        to: { address: lab.place("x/a").addresses[family], port: 80 },
        exchanges: 50,
      })),
    );
    const { fates } = await lab.shooter.run(long);
    assert.deepEqual(new Set(fates.map(({ kind }) => kind)), new Set(["answered"]));
  });

  it("POL-52 POL-55: a denied packet is dropped without an answer to the sender, and not logged by default", async () => {
    await expectOf(lab, [...namedPods(lab, PODS), onlyFrom("nobody")], {
      denied: ["y/a", "y/b", "outside"].flatMap((end) => [
        ...inBoth(end, "x/a", ...TRAFFIC, "81/TCP"),
        ...inBoth("x/a", end, ...TRAFFIC),
      ]),
    });
    const rules = lab.wired("node1").node.exec("nft", ["list", "table", "inet", "drawbridge-policy"]);
    assert.match(rules, /\bdrop\b/);
    assert.doesNotMatch(rules, /\b(?:log|reject)\b/);
  });

  it("POL-56: ICMP errors about a connection pass, from routers and from the node, so that path MTU discovery works", async () => {
    for (const [namespace, link] of [
      [lab.wired("node2").node, UPLINK],
      [lab.nodes.router, "to-node2"],
    ] as const) {
      namespace.exec("ip", ["link", "set", "dev", link, "mtu", String(SMALL_MTU)]);
    }
    // Nobody may send x/a anything, and y/b may send nothing.
    const policies = [
      networkPolicy("x", {
        podSelector: {},
        policyTypes: ["Ingress", "Egress"],
        egress: [{ ports: [{ protocol: "UDP", port: 80 }] }],
      }),
      networkPolicy("y", {
        podSelector: {},
        policyTypes: ["Ingress", "Egress"],
        ingress: [{ ports: [{ protocol: "UDP", port: 80 }] }],
      }),
    ];
    await expectOf(lab, [...namedPods(lab, PODS), ...policies], {
      allowed: inBoth("x/a", "y/b", "80/UDP"),
      denied: [...inBoth("x/a", "y/b", "ICMP"), ...inBoth("y/b", "x/a", "80/UDP", "ICMP")],
    });
    const [a, b] = [lab.place("x/a"), lab.place("y/b")];
    for (const family of FAMILIES) {
      // The kernel forgets the fragment size of an IPv6 packet that came in fragments over a bridge (ipv6_rcv clears
      // what br_netfilter put together), and sends it on whole: no router would take it, with or without policies.
      if (family === 6) setBridgeNetfilter(lab.wired("node1").node, false);
      const to = { address: b.addresses[family], port: 80 };
      assert.ok(await largeDatagram(lab.shooter.poller, a.namespace, to, LARGE_BYTES), `IPv${family}`);
      for (const [end, other] of [
        [a, b],
        [b, a],
      ] as const) {
        const address = formatAddress(other.addresses[family]);
        const known = routeExceptions(end.namespace).filter((line) => line.includes(address));
        assert.equal(
          known.length,
          1,
          `${end.name} learnt nothing of ${address}, IPv${familyOf(other.addresses[family])}`,
        );
      }
    }
  });

  it("POL-56 DS-12: the refusal by a closed port, and neighbour discovery both ways, reach a pod to which policies allow nothing", async () => {
    const nobody = { podSelector: {}, policyTypes: ["Ingress", "Egress"] };
    const shut = 82;
    const egress = [{ ports: [{ protocol: "UDP", port: shut }] }];
    await lab.apply([...namedPods(lab, PODS), networkPolicy("x", { ...nobody, egress })]);
    const [pod, node] = [lab.place("x/a").namespace, lab.wired("node1").node];
    const daemon = lab.daemon("node1").process;
    const wrong = await lab.inBothStates(async (way) => {
      // A running daemon would restore the entries.
      await daemon.pause();
      try {
        for (const [namespace, link] of [
          [pod, "eth0"],
          [node, "cni0"],
        ] as const) {
          for (const family of ["-4", "-6"])
            namespace.exec("ip", [family, "neigh", "flush", "dev", link, "nud", "permanent"]);
        }
        const to = FAMILIES.flatMap((family) => ["y/a", "y/b"].map((name) => lab.place(name).addresses[family]));
        const { fates } = await lab.shooter.run(
          to.map((address) => ({ protocol: "udp" as const, from: pod, to: { address, port: shut } })),
        );
        const answers = await askLab(lab, inBoth("node1", "x/a", "80/TCP", "ICMP"));
        assert.doesNotMatch(
          node.exec("ip", ["neigh", "show", "dev", "cni0"]),
          new RegExp(`${textsOf(lab.place("x/a"))[1]} .*PERMANENT`),
        );
        return [
          ...fates
            .filter(({ kind }) => kind !== "refused")
            .map(({ kind, why }) => `br_netfilter ${way}: ${kind} ${why}`),
          ...answers
            .filter(({ mark }) => mark !== ".")
            .map(({ fate }) => `br_netfilter ${way}: node1 to x/a: ${fate.why}`),
        ];
      } finally {
        daemon.child.kill("SIGCONT");
      }
    });
    assert.deepEqual(wrong.flat(), []);
  });

  it("POL-57: an address that a finished pod had belongs to the pod that has it now", async () => {
    const [key, node] = ["y/c", "node2"] as const;
    await lab.apply([...namedPods(lab, PODS), podObject(key, node, []), onlyFrom("y")]);
    const old = await lab.wire({ key, node });
    listenAll(lab.shooter, old, PORTS);
    const ips = textsOf(old);
    const running = podObject(key, node, ips);
    await expectOf(lab, [...namedPods(lab, PODS), running, onlyFrom("y")], { allowed: inBoth(key, "x/a", ...TRAFFIC) });
    await lab.unwire(key, node);

    const finished = podObject(key, node, ips, { phase: "Succeeded" });
    const heir = "z/c";
    await lab.apply([...namedPods(lab, PODS), finished, podObject(heir, node, []), onlyFrom("y")]);
    const place = await lab.wire({ key: heir, node }, { runtimeConfig: { ips: [`${ips[0]}/24`, `${ips[1]}/64`] } });
    listenAll(lab.shooter, place, PORTS);
    assert.deepEqual(textsOf(place), ips);
    for (const objects of [
      [finished, podObject(heir, node, ips)],
      // The end of the old pod is not known yet.
      [podObject(key, node, ips, { isTerminating: true }), podObject(heir, node, ips)],
    ]) {
      await expectOf(lab, [...namedPods(lab, PODS), ...objects, onlyFrom("y")], {
        denied: inBoth(heir, "x/a", ...TRAFFIC),
      });
      await expectOf(lab, [...namedPods(lab, PODS), ...objects, onlyFrom("z")], {
        allowed: inBoth(heir, "x/a", ...TRAFFIC),
      });
    }
    await lab.unwire(heir, node);
  });

  it("POL-58: pods of a terminating namespace stay isolated when its policies are deleted before them (CVE-2024-7598)", async () => {
    const objects = namedPods(lab, PODS).filter((object) => !isNamespace(object, "x"));
    const ending = namespaceManifest("x", { project: "x" }, true);
    const cut = {
      denied: [...inBoth("z/a", "x/a", ...TRAFFIC), ...inBoth("x/a", "z/a", ...TRAFFIC)],
      allowed: inBoth("y/a", "x/a", ...TRAFFIC),
    };
    await expectOf(lab, [...namedPods(lab, PODS), onlyFrom("y")], cut);
    await expectOf(lab, [...objects, ending, onlyFrom("y")], cut);
    // The evaluator does not know the state before.
    await lab.apply([...objects, ending]);
    await expectPackets(lab, cut);
    await lab.apply(objects);
    await expectPackets(lab, cut);
  });
});

function isNamespace(object: object, name: string): boolean {
  const { kind, metadata } = object as { readonly kind: string; readonly metadata: { readonly name: string } };
  return kind === "Namespace" && metadata.name === name;
}
