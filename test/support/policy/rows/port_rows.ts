import { NAMED_PORTS } from "../lab/nine_pods.ts";
import { inBoth, type Traffic } from "../lab/question.ts";
import { egressOfA, ingressOfA, ingressOfX, inNamespace } from "./words.ts";
import { blocks, into, outOf, type Row } from "./row.ts";

/** The names of ports of a pod, all of TCP. */
const http = (...ports: readonly number[]) => ({
  ports: ports.map((containerPort) => ({ name: "http", containerPort, protocol: "TCP" })),
});
const EVERYONE = blocks("0.0.0.0/0", "::/0");
const POD_NETWORKS = blocks("10.244.0.0/16", "fd00:244::/32");

/** A policy of one rule, and one with enough rules to be compiled into large sets. */
const SMALL = egressOfA({ to: POD_NETWORKS, ports: [{ port: "http" }] });
const LARGE = egressOfA(
  ...Array.from({ length: 40 }, (_, index) => ({
    to: blocks(`10.${index}.0.0/16`, `fd00:${index}::/32`),
    ports: [{ port: "other" }, { port: index + 1000, protocol: "UDP" }],
  })),
  { to: POD_NETWORKS, ports: [{ port: "http" }] },
);

/** The protocols, ports and names of ports that rules allow. */
export const PORT_ROWS: readonly Row[] = [
  {
    title:
      "POL-30 POL-32: a port belongs to its protocol, which is TCP where none is given; without a port all of them are allowed",
    steps: [
      {
        policies: [ingressOfA({ ports: [{ port: 80 }] })],
        allowed: into("80/TCP"),
        denied: into("81/TCP", "80/UDP", "80/SCTP", "ICMP"),
      },
      {
        policies: [ingressOfA({ ports: [{ port: 80, protocol: "UDP" }] })],
        allowed: into("80/UDP"),
        denied: into("80/TCP", "81/UDP", "80/SCTP"),
      },
      {
        policies: [egressOfA({ ports: [{ port: 80, protocol: "SCTP" }] })],
        allowed: outOf("80/SCTP"),
        denied: outOf("80/TCP", "80/UDP", "81/SCTP"),
      },
      {
        policies: [ingressOfA({ ports: [{ protocol: "UDP" }] })],
        allowed: into("79/UDP", "8080/UDP"),
        denied: into("80/TCP", "80/SCTP", "ICMP"),
      },
      {
        policies: [egressOfA({ ports: [{}] })],
        allowed: outOf("79/TCP", "8080/TCP"),
        denied: outOf("80/UDP", "80/SCTP", "ICMP"),
      },
    ],
  },
  {
    title: "POL-33: a port range includes both its ends and nothing beside them",
    steps: (["TCP", "UDP", "SCTP"] as const).flatMap((protocol) => {
      const range = { ports: [{ protocol, port: 80, endPort: 81 }] };
      const inside: readonly Traffic[] = [`80/${protocol}`, `81/${protocol}`];
      const beside: readonly Traffic[] = [`79/${protocol}`, `82/${protocol}`];
      return [
        { policies: [ingressOfA(range)], allowed: into(...inside), denied: into(...beside) },
        { policies: [egressOfA(range)], allowed: outOf(...inside), denied: outOf(...beside) },
      ];
    }),
  },
  {
    title: "POL-20: a rule allows its peers only at its ports, and its ports only to its peers",
    steps: [
      {
        policies: [
          ingressOfA({ from: [inNamespace("y")], ports: [{ port: 80 }] }, { ports: [{ port: 81, protocol: "UDP" }] }),
        ],
        allowed: [...inBoth("y/b", "x/a", "80/TCP", "81/UDP"), ...inBoth("z/a", "x/a", "81/UDP")],
        denied: [...inBoth("y/b", "x/a", "81/TCP"), ...inBoth("z/a", "x/a", "80/TCP")],
      },
    ],
  },
  {
    title: "POL-31: a port name means each pod's own number: the selected pod's at ingress, each peer's at egress",
    steps: [
      {
        policies: [ingressOfX({ ports: [{ port: "http" }] })],
        pods: { "x/b": http(80), "x/c": http(81) },
        allowed: ["z/a", "outside"].flatMap((from) => [
          ...inBoth(from, "x/b", "80/TCP"),
          ...inBoth(from, "x/c", "81/TCP"),
        ]),
        denied: ["z/a", "outside"].flatMap((from) => [
          ...inBoth(from, "x/b", "81/TCP", "80/UDP"),
          ...inBoth(from, "x/c", "80/TCP"),
          ...inBoth(from, "x/a", "80/TCP", "81/TCP"),
        ]),
      },
      {
        policies: [egressOfA({ ports: [{ port: "http" }] })],
        pods: { "x/b": http(80), "x/c": http(81), "y/b": http(8080), "y/c": http() },
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
      },
    ],
  },
  {
    title:
      "POL-31: a name of two ports means both, an unknown name means none, and at ingress from an ipBlock a name is the selected pod's",
    steps: [
      {
        policies: [ingressOfA({ ports: [{ port: "http" }, { port: "http", protocol: "UDP" }] })],
        pods: { "x/a": { ports: [...http(80).ports, { name: "http", containerPort: 8080, protocol: "UDP" }] } },
        allowed: into("80/TCP", "8080/UDP"),
        denied: into("8080/TCP", "80/UDP"),
      },
      {
        policies: [ingressOfA({ from: [{ podSelector: {} }], ports: [{ port: "nobody" }] })],
        denied: into("80/TCP", "81/TCP", "80/UDP", "ICMP"),
      },
      {
        policies: [ingressOfA({ from: EVERYONE, ports: [{ port: "serve-80-tcp" }] })],
        allowed: into("80/TCP"),
        denied: into("81/TCP"),
      },
    ],
  },
  {
    title: "POL-31: names of native sidecars' ports count, those of other init containers' ports do not",
    steps: [
      {
        policies: [ingressOfA({ ports: [{ port: "proxy" }] })],
        pods: {
          "x/a": {
            ports: NAMED_PORTS,
            initContainers: [
              { name: "proxy", restartPolicy: "Always", ports: [{ name: "proxy", containerPort: 8080 }] },
              { name: "once", ports: [{ name: "proxy", containerPort: 81 }] },
            ],
          },
        },
        allowed: into("8080/TCP"),
        denied: into("80/TCP", "81/TCP"),
      },
    ],
  },
  {
    title: "POL-35: a policy follows pods that lose, change and get the name of a port at once, also when it is large",
    steps: [SMALL, LARGE].flatMap((policy) => {
      const at = (to: string, port: 80 | 81 | 82) => inBoth("x/a", to, `${port}/TCP`);
      return [
        {
          policies: [policy],
          pods: { "z/a": http(80), "x/b": http(81) },
          allowed: [...at("z/a", 80), ...at("x/b", 81)],
          denied: [...at("z/a", 81), ...at("x/b", 80), ...at("y/c", 80)],
        },
        {
          policies: [policy],
          pods: { "z/a": http(82), "x/b": http(), "y/c": http(80) },
          allowed: [...at("z/a", 82), ...at("y/c", 80)],
          denied: [...at("z/a", 80), ...at("x/b", 81)],
        },
        {
          policies: [policy],
          pods: { "y/c": http(80) },
          missing: ["z/a"],
          ofPackets: { allowed: at("y/c", 80), denied: at("z/a", 82) },
        },
      ];
    }),
  },
  {
    title: "POL-56: only rules without ports allow ICMP",
    steps: [
      {
        policies: [ingressOfA({ from: [inNamespace("y")] })],
        allowed: inBoth("y/b", "x/a", "ICMP"),
        denied: inBoth("z/a", "x/a", "ICMP"),
      },
      {
        policies: [ingressOfA({ from: [inNamespace("y")], ports: [{}, { protocol: "UDP" }, { protocol: "SCTP" }] })],
        denied: inBoth("y/b", "x/a", "ICMP"),
        allowed: inBoth("y/b", "x/a", "80/TCP"),
      },
      { policies: [egressOfA({})], allowed: outOf("ICMP") },
      {
        policies: [egressOfA({ ports: [{ port: 1, endPort: 65_535 }] })],
        denied: outOf("ICMP"),
        allowed: outOf("80/TCP"),
      },
    ],
  },
];
