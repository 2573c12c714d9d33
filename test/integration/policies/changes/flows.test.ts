import assert from "node:assert/strict";
import { type Address, addressToBytes, type Family, parseAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { check } from "../../../../kernel/syscall/syscalls.ts";
import { encodeIp, encodeUdp } from "../../../lab/probe/frame.ts";
import { internetChecksum, payloadOf } from "../../../lab/probe/raw_packet.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import { expectOf } from "../../../support/policy/lab/expectation.ts";
import { namedLab, type NamedPods, namedPods } from "../../../support/policy/lab/named_lab.ts";
import { listenAll } from "../../../support/policy/lab/nine_pods.ts";
import { podObject, textsOf } from "../../../support/policy/lab/place.ts";
import type { PolicyLab } from "../../../support/policy/lab/policy_lab.ts";
import { askLab, inBoth, isSilence, type Traffic } from "../../../support/policy/lab/question.ts";
import { labelled, networkPolicy } from "../../../support/policy/manifest.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { until } from "../../../support/until.ts";

const PODS: NamedPods = {
  "x/a": { node: "node1" },
  "y/a": { node: "node1" },
  "y/b": { node: "node2" },
  "z/a": { node: "node2" },
};
const PORTS = [80, 81] as const;
const TRAFFIC: readonly Traffic[] = ["80/TCP", "80/UDP", "80/SCTP", "ICMP"];

const onlyFrom = (namespace: string): object =>
  networkPolicy("x", {
    podSelector: {},
    policyTypes: ["Ingress", "Egress"],
    ingress: [{ from: [{ namespaceSelector: labelled({ project: namespace }) }] }],
  });

const EPROTO = 71;
const EMSGSIZE = 90;
const IPPROTO_IPV6 = 41;
const IPV6_JOIN_GROUP = 20;
const MLDV2_REPORT = 143;
const ALL_MLDV2_ROUTERS = parseAddress("ff02::16");
const ICMP = { 4: 1, 6: 58 } as const;
/** The port of both ends of the flow, and that of a flow that does not exist. */
const [PORT, OTHER_PORT] = [83, 84] as const;

/** Errors that a router or a host sends, with the error that a program gets (icmp_err_convert, icmpv6_err_convert). */
const ERRORS: Readonly<
  Record<Family, readonly (readonly [what: string, type: number, code: number, errno: number])[]>
> = {
  4: [
    ["port unreachable", 3, 3, Errno.ECONNREFUSED],
    ["host unreachable", 3, 1, Errno.EHOSTUNREACH],
    ["time exceeded", 11, 0, Errno.EHOSTUNREACH],
    ["parameter problem", 12, 0, EPROTO],
    ["too big for the path", 3, 4, EMSGSIZE],
  ],
  6: [
    ["port unreachable", 1, 4, Errno.ECONNREFUSED],
    ["address unreachable", 1, 3, Errno.EHOSTUNREACH],
    ["time exceeded", 3, 0, Errno.EHOSTUNREACH],
    ["parameter problem", 4, 0, EPROTO],
    ["too big for the path", 2, 0, EMSGSIZE],
  ],
};

describe("policies and packets after the first one of a flow", function () {
  this.timeout(300_000);
  let lab: PolicyLab;
  const sockets: ProbeSocket[] = [];

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = await namedLab("flows", PODS, PORTS);
  });
  afterEach(() => {
    for (const socket of sockets.splice(0)) socket.close();
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
    const results = await lab.prober.run(long, { timeoutMilliseconds: 20_000 });
    assert.deepEqual(
      results.filter(({ reached }) => !reached).map(({ why }) => why),
      [],
    );
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
        const refusals = await lab.prober.run(
          to.map((address) => ({ protocol: "udp" as const, from: pod, to: { address, port: shut } })),
        );
        const answers = await askLab(lab, inBoth("node1", "x/a", "80/TCP", "ICMP"));
        assert.doesNotMatch(
          node.exec("ip", ["neigh", "show", "dev", "cni0"]),
          new RegExp(`${textsOf(lab.place("x/a"))[1]} .*PERMANENT`),
        );
        return [
          ...refusals
            .filter(({ reached, why }) => reached || isSilence(why))
            .map(({ why }) => `br_netfilter ${way}: no refusal: ${why}`),
          ...answers.filter(({ mark }) => mark !== ".").map(({ why }) => `br_netfilter ${way}: node1 to x/a: ${why}`),
        ];
      } finally {
        daemon.child.kill("SIGCONT");
      }
    });
    assert.deepEqual(wrong.flat(), []);
  });

  /** Isolates x/a, which may only send UDP to one port. */
  const isolate = () =>
    lab.apply([
      ...namedPods(lab, PODS),
      networkPolicy("x", {
        podSelector: {},
        policyTypes: ["Ingress", "Egress"],
        egress: [{ ports: [{ protocol: "UDP", port: PORT }] }],
      }),
    ]);

  function open(...parameters: Parameters<typeof ProbeSocket.open>): ProbeSocket {
    const socket = ProbeSocket.open(...parameters);
    sockets.push(socket);
    return socket;
  }

  for (const family of FAMILIES) {
    it(`POL-56: errors of IPv${family} about a flow of an isolated pod reach it, and those about no flow do not`, async () => {
      await isolate();
      await lab.inBothStates(async (way) => {
        const [pod, peer] = ["x/a", "y/b"].map((name) => lab.place(name));
        assert.ok(pod !== undefined && peer !== undefined);
        const [own, other] = [pod.addresses[family], peer.addresses[family]];
        for (const socket of sockets.splice(0)) socket.close();
        const listener = open(peer.namespace, family, SocketType.DATAGRAM);
        listener.bind({ address: other, port: PORT });
        const program = open(pod.namespace, family, SocketType.DATAGRAM);
        program.bind({ address: own, port: PORT });
        program.connect({ address: other, port: PORT });
        program.send(Uint8Array.of(1));
        await until(() => listener.receive().kind === "data", "the peer has it");
        const seen = open(pod.namespace, family, SocketType.RAW, ICMP[family]);
        const router = open(lab.nodes.router, family, SocketType.RAW, ICMP[family]);
        for (const [what, type, code, errno] of ERRORS[family]) {
          for (const port of [OTHER_PORT, PORT]) {
            const error = icmpError(
              family,
              type,
              code,
              encodeIp(encodeUdp(own, other, port, Uint8Array.of(1))).payload,
            );
            assert.equal(router.sendTo(error, { address: own, port: 0 }), error.length);
          }
          const about: number[] = [];
          await until(() => {
            for (const next of seen.drain()) if (next.kind === "data") about.push(...quotedPort(family, next.data));
            return about.includes(PORT);
          }, `${what}, br_netfilter ${way}`);
          const reported = program.receive();
          assert.deepEqual(
            { what, way, about, reported: reported.kind === "refused" ? reported.errno : reported.kind },
            { what, way, about: [PORT], reported: errno },
          );
        }
      });
    });
  }

  it("DS-12: a node gets the reports of the groups that an isolated pod joins", async () => {
    await isolate();
    const { namespace: pod } = lab.place("x/a");
    const { node } = lab.wired("node1");
    await lab.inBothStates(async (way) => {
      const heard = open(node, 6, SocketType.RAW, ICMP[6]);
      join(heard, ALL_MLDV2_ROUTERS, node.link("cni0").index);
      const group = parseAddress(`ff05::db:${way === "as made" ? 1 : 2}`);
      join(open(pod, 6, SocketType.DATAGRAM), group, pod.link("eth0").index);
      await until(
        () => [...heard.drain()].some((next) => next.kind === "data" && isReportOf(group, next.data)),
        `a report of the group, br_netfilter ${way}`,
      );
    });
  });

  function join(socket: ProbeSocket, group: Address, index: number): void {
    const request = Uint8Array.of(...addressToBytes(group), ...new Uint8Array(Uint32Array.of(index).buffer));
    check(lab.lab.calls.setsockopt(socket.fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, request), "join a group");
  }

  it("POL-57: an address that a finished pod had belongs to the pod that has it now", async () => {
    const [key, node] = ["y/c", "node2"] as const;
    await lab.apply([...namedPods(lab, PODS), podObject(key, node, []), onlyFrom("y")]);
    const old = await lab.wire({ key, node });
    listenAll(lab.prober, old, PORTS);
    const ips = textsOf(old);
    const running = podObject(key, node, ips);
    await expectOf(lab, [...namedPods(lab, PODS), running, onlyFrom("y")], { allowed: inBoth(key, "x/a", ...TRAFFIC) });
    await lab.unwire(key, node);

    const finished = podObject(key, node, ips, { phase: "Succeeded" });
    const heir = "z/c";
    await lab.apply([...namedPods(lab, PODS), finished, podObject(heir, node, []), onlyFrom("y")]);
    const place = await lab.wire({ key: heir, node }, { runtimeConfig: { ips: [`${ips[0]}/24`, `${ips[1]}/64`] } });
    listenAll(lab.prober, place, PORTS);
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
});

/** Returns whether a message is a report of version 2 with a record of the group (RFC 3810 section 5.2). */
function isReportOf(group: Address, message: Uint8Array): boolean {
  const wanted = Buffer.from(addressToBytes(group));
  return message[0] === MLDV2_REPORT && Buffer.from(message).includes(wanted);
}

/** Returns an ICMP message about a packet. The kernel fills in ICMPv6's checksum, which covers the addresses. */
function icmpError(family: Family, type: number, code: number, quoted: Uint8Array): Uint8Array {
  const message = Uint8Array.of(type, code, 0, 0, 0, 0, 0, 0, ...quoted);
  if (family === 4) new DataView(message.buffer).setUint16(2, internetChecksum(message));
  return message;
}

/** Returns the source port of the datagram that an error is about, or nothing for a message that is not an error. */
function quotedPort(family: Family, received: Uint8Array): readonly number[] {
  const message = payloadOf(family, received);
  if (message === undefined || !ERRORS[family].some(([, type]) => type === message[0])) return [];
  const datagram = message.subarray(8 + (family === 4 ? 20 : 40));
  return [new DataView(datagram.buffer, datagram.byteOffset).getUint16(0)];
}
