import { type Expectation, expectOf, expectPackets } from "../../../support/policy/lab/expectation.ts";
import { NAMED_PORTS, ninePodLab, ninePods } from "../../../support/policy/lab/nine_pods.ts";
import { pairs, together } from "../../../support/policy/lab/pairs.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { inBoth, type Traffic } from "../../../support/policy/lab/question.ts";
import { textsOf } from "../../../support/policy/lab/place.ts";
import {
  egressOfA,
  fromA,
  ingressOfA,
  ingressOfX,
  inNamespace,
  named,
  never,
  toA,
} from "../../../support/policy/upstream_words.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";

/** The ports that pods serve; 79 to 82 lie around those that they serve in other tests. */
const PORTS = [79, 80, 81, 82, 8080] as const;
const blocks = (...cidrs: readonly string[]): readonly object[] => cidrs.map((cidr) => ({ ipBlock: { cidr } }));

describe("ports and blocks of policies, with packets", function () {
  this.timeout(60_000);
  let lab: PolicyLab;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await ninePodLab({ name: "ports", bridgeNetfilter: { node1: true, node2: false } }, PORTS);
  });
  after(() => lab?.close());

  const hold = (policies: readonly object[], expectation: Expectation) =>
    expectOf(lab, [...ninePods(lab), ...policies], expectation);
  /** Returns questions to x/a from a pod of its node, from one of the other node and from a host outside. */
  const into = (...traffics: readonly Traffic[]) =>
    ["x/b", "z/a", "outside"].flatMap((from) => inBoth(from, "x/a", ...traffics));
  const outOf = (...traffics: readonly Traffic[]) =>
    ["x/b", "z/a", "outside"].flatMap((to) => inBoth("x/a", to, ...traffics));

  it("POL-30: a port belongs to its protocol, which is TCP where none is given", async () => {
    await hold([ingressOfA({ ports: [{ port: 80 }] })], {
      allowed: into("80/TCP"),
      denied: into("81/TCP", "80/UDP", "80/SCTP", "ICMP"),
    });
    await hold([ingressOfA({ ports: [{ port: 80, protocol: "UDP" }] })], {
      allowed: into("80/UDP"),
      denied: into("80/TCP", "81/UDP", "80/SCTP"),
    });
    await hold([egressOfA({ ports: [{ port: 80, protocol: "SCTP" }] })], {
      allowed: outOf("80/SCTP"),
      denied: outOf("80/TCP", "80/UDP", "81/SCTP"),
    });
  });

  it("POL-32: a protocol without a port allows all ports of the protocol", async () => {
    await hold([ingressOfA({ ports: [{ protocol: "UDP" }] })], {
      allowed: into("79/UDP", "8080/UDP"),
      denied: into("80/TCP", "80/SCTP", "ICMP"),
    });
    await hold([egressOfA({ ports: [{}] })], {
      allowed: outOf("79/TCP", "8080/TCP"),
      denied: outOf("80/UDP", "80/SCTP", "ICMP"),
    });
  });

  it("POL-33: a port range includes both its ends and nothing beside them", async () => {
    for (const protocol of ["TCP", "UDP", "SCTP"] as const) {
      const range = { ports: [{ protocol, port: 80, endPort: 81 }] };
      const inside: readonly Traffic[] = [`80/${protocol}`, `81/${protocol}`];
      const beside: readonly Traffic[] = [`79/${protocol}`, `82/${protocol}`];
      await hold([ingressOfA(range)], { allowed: into(...inside), denied: into(...beside) });
      await hold([egressOfA(range)], { allowed: outOf(...inside), denied: outOf(...beside) });
    }
  });

  it("POL-20: a rule allows its peers only at its ports, and its ports only to its peers", async () => {
    const rule = { from: [inNamespace("y")], ports: [{ port: 80 }] };
    await hold([ingressOfA(rule, { ports: [{ port: 81, protocol: "UDP" }] })], {
      allowed: [...inBoth("y/b", "x/a", "80/TCP", "81/UDP"), ...inBoth("z/a", "x/a", "81/UDP")],
      denied: [...inBoth("y/b", "x/a", "81/TCP"), ...inBoth("z/a", "x/a", "80/TCP")],
    });
  });

  it("POL-31: a port name means each pod's own number: the selected pod's at ingress, each peer's at egress", async () => {
    const http = (containerPort: number): readonly object[] => [{ name: "http", containerPort, protocol: "TCP" }];
    const changes = {
      "x/b": { ports: http(80) },
      "x/c": { ports: http(81) },
      "y/b": { ports: http(8080) },
      "y/c": { ports: [] },
    };
    const rule = { ports: [{ port: "http" }] };
    await expectOf(lab, [...ninePods(lab, {}, changes), ingressOfX(rule)], {
      allowed: ["z/a", "outside"].flatMap((from) => [
        ...inBoth(from, "x/b", "80/TCP"),
        ...inBoth(from, "x/c", "81/TCP"),
      ]),
      denied: ["z/a", "outside"].flatMap((from) => [
        ...inBoth(from, "x/b", "81/TCP", "80/UDP"),
        ...inBoth(from, "x/c", "80/TCP"),
        ...inBoth(from, "x/a", "80/TCP", "81/TCP"),
      ]),
    });
    await expectOf(lab, [...ninePods(lab, {}, changes), egressOfA(rule)], {
      allowed: [
        ...inBoth("x/a", "x/b", "80/TCP"),
        ...inBoth("x/a", "x/c", "81/TCP"),
        ...inBoth("x/a", "y/b", "8080/TCP"),
      ],
      denied: [
        ...inBoth("x/a", "x/b", "81/TCP", "8080/TCP"),
        ...inBoth("x/a", "x/c", "80/TCP"),
        ...inBoth("x/a", "y/b", "80/TCP"),
        ...inBoth("x/a", "y/c", "80/TCP", "81/TCP", "8080/TCP"),
        ...inBoth("x/a", "outside", "80/TCP"),
      ],
    });
  });

  it("POL-31: a name of two ports means both, an unknown name means none, and at ingress from an ipBlock a name is the selected pod's", async () => {
    const twice = {
      "x/a": {
        ports: [80, 8080].map((containerPort, index) => ({
          name: "http",
          containerPort,
          protocol: index === 0 ? "TCP" : "UDP",
        })),
      },
    };
    await expectOf(
      lab,
      [...ninePods(lab, {}, twice), ingressOfA({ ports: [{ port: "http" }, { port: "http", protocol: "UDP" }] })],
      {
        allowed: into("80/TCP", "8080/UDP"),
        denied: into("8080/TCP", "80/UDP"),
      },
    );
    await hold([ingressOfA({ from: [{ podSelector: {} }], ports: [{ port: "nobody" }] })], {
      denied: into("80/TCP", "81/TCP", "80/UDP", "ICMP"),
    });
    const everyone = blocks("0.0.0.0/0", "::/0");
    await hold([ingressOfA({ from: everyone, ports: [{ port: "serve-80-tcp" }] })], {
      allowed: into("80/TCP"),
      denied: into("81/TCP"),
    });
  });

  it("POL-35: a port name at egress to an ipBlock is that of the pod at the address, on either node; hosts have no names", async () => {
    const rule = (...to: readonly object[]): object => egressOfA({ to, ports: [{ port: "serve-80-tcp" }] });
    const toPods = ["x/b", "z/a", "y/c"].flatMap((to) => inBoth("x/a", to, "80/TCP"));
    const beside = ["x/b", "z/a"].flatMap((to) => inBoth("x/a", to, "81/TCP", "80/UDP", "80/SCTP", "ICMP"));
    const toOthers = ["outside", "node2"].flatMap((to) => inBoth("x/a", to, "80/TCP"));
    // With the number instead of the name the same traffic arrives everywhere: hosts and nodes do serve it.
    await hold([egressOfA({ to: blocks("0.0.0.0/0", "::/0"), ports: [{ port: 80 }] })], {
      allowed: [...toPods, ...toOthers],
    });
    await hold([rule(...blocks("0.0.0.0/0", "::/0"))], { allowed: toPods, denied: [...beside, ...toOthers] });
    const [v4, v6] = textsOf(lab.place("z/a"));
    await hold([rule({ ipBlock: { cidr: "10.244.0.0/16", except: [`${v4}/32`] } }, ...blocks(`${v6}/128`))], {
      allowed: [
        ...toPods.filter(({ family, to }) => family === 4 && to !== "z/a"),
        ...toPods.filter(({ family, to }) => family === 6 && to === "z/a"),
      ],
      denied: [
        ...toPods.filter(({ family, to }) => family === 4 && to === "z/a"),
        ...toPods.filter(({ family, to }) => family === 6 && to !== "z/a"),
        ...toOthers,
      ],
    });
  });

  it("POL-35: a policy follows pods that lose, change and get the name of a port at once, also when it is large", async () => {
    const http = (...ports: readonly number[]) => ({
      ports: ports.map((containerPort) => ({ name: "http", containerPort, protocol: "TCP" })),
    });
    const small = egressOfA({ to: blocks("10.244.0.0/16", "fd00:244::/32"), ports: [{ port: "http" }] });
    const large = egressOfA(
      ...Array.from({ length: 40 }, (_, index) => ({
        to: blocks(`10.${index}.0.0/16`, `fd00:${index}::/32`),
        ports: [{ port: "other" }, { port: index + 1000, protocol: "UDP" }],
      })),
      { to: blocks("10.244.0.0/16", "fd00:244::/32"), ports: [{ port: "http" }] },
    );
    const at = (place: string, port: 80 | 81 | 82) => inBoth("x/a", place, `${port}/TCP`);
    for (const policy of [small, large]) {
      await expectOf(lab, [...ninePods(lab, {}, { "z/a": http(80), "x/b": http(81) }), policy], {
        allowed: [...at("z/a", 80), ...at("x/b", 81)],
        denied: [...at("z/a", 81), ...at("x/b", 80), ...at("y/c", 80)],
      });
      await expectOf(lab, [...ninePods(lab, {}, { "z/a": http(82), "x/b": http(), "y/c": http(80) }), policy], {
        allowed: [...at("z/a", 82), ...at("y/c", 80)],
        denied: [...at("z/a", 80), ...at("x/b", 81)],
      });
      const gone = ninePods(lab, {}, { "z/a": http(82), "y/c": http(80) }).filter((object) => !isPod(object, "z", "a"));
      // The evaluator does not know the deleted pod.
      await lab.apply([...gone, policy]);
      await expectPackets(lab, { allowed: at("y/c", 80), denied: at("z/a", 82) });
    }
  });

  it("POL-31: names of native sidecars' ports count, those of other init containers' ports do not", async () => {
    const sidecar = [{ name: "proxy", restartPolicy: "Always", ports: [{ name: "proxy", containerPort: 8080 }] }];
    const once = [{ name: "once", ports: [{ name: "proxy", containerPort: 8080 }] }];
    const policy = ingressOfA({ ports: [{ port: "proxy" }] });
    const withInit = (initContainers: readonly object[]) =>
      ninePods(lab, {}, { "x/a": { ports: NAMED_PORTS, initContainers } });
    await expectOf(lab, [...withInit(sidecar), policy], { allowed: into("8080/TCP"), denied: into("80/TCP") });
    await expectOf(lab, [...withInit(once), policy], { denied: into("8080/TCP", "80/TCP") });
  });

  it("POL-25 POL-26: an ipBlock matches pods, nodes and hosts except its exceptions, which take nothing from other entries", async () => {
    const [v4, v6] = textsOf(lab.place("z/a"));
    const but = [
      { ipBlock: { cidr: "10.244.0.0/16", except: [`${v4}/32`] } },
      { ipBlock: { cidr: "fd00:244::/32", except: [`${v6}/128`] } },
    ];
    await hold(
      [ingressOfA({ from: but })],
      together(
        pairs((from, to) => toA(to) && from === "z/a"),
        { denied: inBoth("outside", "x/a", "80/TCP") },
      ),
    );
    await hold(
      [egressOfA({ to: but })],
      pairs((from, to) => fromA(from) && to === "z/a"),
    );
    await hold([ingressOfA({ from: [...but, ...blocks(`${v4}/32`, `${v6}/128`)] })], pairs(never));
    await hold(
      [
        named(ingressOfA({ from: but }), "but"),
        named(ingressOfA({ from: blocks(`${v4}/32`, `${v6}/128`), ports: [{ port: 80 }] }), "one"),
      ],
      together(pairs(never), { denied: inBoth("z/a", "x/a", "81/TCP") }),
    );
    await hold(
      [ingressOfA({ from: blocks("203.0.113.0/29", "2001:db8:c:1::/64", "192.0.2.18/32", "2001:db8:0:2::2/128") })],
      {
        allowed: [...inBoth("outside", "x/a", "80/TCP"), ...inBoth("node2", "x/a", "80/TCP")],
        denied: [...inBoth("stranger", "x/a", "80/TCP"), ...inBoth("x/b", "x/a", "80/TCP")],
      },
    );
  });

  it("POL-25: a block of one family allows nothing of the other family", async () => {
    const questions = into("80/TCP", "80/UDP");
    const ofFamily = (family: number) => questions.filter((question) => question.family === family);
    await hold([ingressOfA({ from: blocks("0.0.0.0/0") })], { allowed: ofFamily(4), denied: ofFamily(6) });
    await hold([ingressOfA({ from: blocks("::/0") })], { allowed: ofFamily(6), denied: ofFamily(4) });
  });

  it("POL-56: only rules without ports allow ICMP", async () => {
    await hold([ingressOfA({ from: [inNamespace("y")] })], {
      allowed: inBoth("y/b", "x/a", "ICMP"),
      denied: inBoth("z/a", "x/a", "ICMP"),
    });
    await hold([ingressOfA({ from: [inNamespace("y")], ports: [{}, { protocol: "UDP" }, { protocol: "SCTP" }] })], {
      denied: inBoth("y/b", "x/a", "ICMP"),
      allowed: inBoth("y/b", "x/a", "80/TCP"),
    });
    await hold([egressOfA({})], { allowed: outOf("ICMP") });
    await hold([egressOfA({ ports: [{ port: 1, endPort: 65_535 }] })], {
      denied: outOf("ICMP"),
      allowed: outOf("80/TCP"),
    });
  });
});

function isPod(object: object, namespace: string, name: string): boolean {
  const { kind, metadata } = object as {
    readonly kind: string;
    readonly metadata: { readonly name: string; readonly namespace?: string };
  };
  return kind === "Pod" && metadata.namespace === namespace && metadata.name === name;
}
