import { FAMILIES } from "../../../../kernel/ip/address.ts";
import assert from "node:assert/strict";
import { setImmediate as turn, setTimeout as pause } from "node:timers/promises";
import { POLICY_TABLE } from "../../../../policyd/policies/compile/policy_table.ts";
import { createLab, type Lab } from "../../../lab/lab.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import { type TwoNodes, twoNodes } from "../../../lab/topology.ts";
import {
  type ComingPod,
  comingPod,
  listOf,
  podObject,
  startCall,
  succeed,
} from "../../../support/policy/first_packet/coming_pod.ts";
import { PolicydNode } from "../../../support/daemon/policyd_node.ts";
import { requireBridgeNetfilter, requireKernel } from "../../../support/privilege.ts";
import { randomFrom } from "../../../support/random.ts";
import { roundsFor } from "../../../support/long_form.ts";

const ROUNDS = roundsFor("rounds", 4, 150);
const PORT = 7001;
/** The number of pods of another node, so that a policy has hundreds of elements, and a change hundreds as well. */
const OTHERS = 300;
const POLICIES = 40;
/** A change is in force within this time, so the daemon is killed before, while or after it writes. */
const LONGEST_LIFE_MILLISECONDS = 400;
const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 0x7fff_ffff);

const NAMES = ["attacker", "friend", "victim"] as const;
type Name = (typeof NAMES)[number];

/** Returns a state's objects. Policies of the victim change with the state, and none of them allows the attacker. */
function objectsOf(state: number, random: () => number): readonly object[] {
  const others = Array.from({ length: OTHERS }, (_, number) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `o${number}`, namespace: "victims", labels: { app: `a${Math.floor(random() * 10)}` } },
    spec: { nodeName: "node2" },
    status: {
      phase: "Running",
      podIPs: [
        { ip: `10.244.${2 + (number >> 7)}.${1 + (number & 127)}` },
        { ip: `fd00:244:2::${number.toString(16)}` },
      ],
    },
  }));
  const policies = Array.from({ length: POLICIES }, (_, number) => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: `p${number}`, namespace: "victims" },
    spec: {
      podSelector: number === 0 || random() < 0.5 ? {} : { matchLabels: { app: "nobody" } },
      ingress: [
        { from: [{ podSelector: { matchLabels: { app: "friend" } } }] },
        {
          from: [{ podSelector: { matchLabels: { app: `a${(state + number) % 10}` } } }],
          ports: [{ port: 1 + number }],
        },
      ],
    },
  }));
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: "victims", labels: { state: String(state) } } },
    ...NAMES.map((name) => podObject("victims", name, { labels: { app: name } })),
    ...others,
    ...policies,
  ];
}

describe(`a daemon that is killed while it writes policies (seed ${seed})`, function () {
  this.timeout(20 * 60_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  const pods = new Map<Name, ComingPod>();
  const sockets: ProbeSocket[] = [];
  const random = randomFrom(seed);
  const arrived: Record<"attacker" | "friend", number> = { attacker: 0, friend: 0 };
  let sent = 0;

  before(async function () {
    requireKernel(this);
    requireBridgeNetfilter(this);
    lab = createLab("kills");
    nodes = twoNodes(lab, { bridgeNetfilter: true });
    policyd = new PolicydNode(lab, nodes.node1, "60s");
  });
  after(() => {
    for (const socket of sockets) socket.close();
    lab?.destroy();
  });

  const of = (name: Name): ComingPod => pods.get(name) ?? assert.fail(name);

  /** Sends a datagram in each family, each the first of a flow. */
  function send(from: "attacker" | "friend"): void {
    for (const family of FAMILIES) {
      const socket = ProbeSocket.open(of(from).namespace, family, SocketType.DATAGRAM);
      socket.sendTo(Uint8Array.of(from === "attacker" ? 1 : 2), {
        address: of("victim").addresses[family],
        port: PORT,
      });
      socket.close();
      sent++;
    }
  }

  function receive(): void {
    for (const socket of sockets) {
      for (const got of socket.drain()) {
        if (got.kind === "data") arrived[got.data[0] === 1 ? "attacker" : "friend"]++;
      }
    }
  }

  /** Sends as the attacker until the work settles. */
  async function during(work: Promise<unknown>): Promise<void> {
    const progress = { isOver: false };
    const over = work.finally(() => (progress.isOver = true));
    while (!progress.isOver) {
      send("attacker");
      await turn();
      receive();
    }
    await over;
  }

  const put = (state: number): void => policyd.put("all.json", listOf(objectsOf(state, random)));
  const leftovers = (): readonly string[] =>
    nodes.node1.node
      .exec("nft", ["list", "tables"])
      .split("\n")
      .filter((line) => /-(closing|kept|policy-opening)$/.test(line));

  it(`POL-94: ${ROUNDS} daemons killed at any moment of a change let no denied packet through, and the next one puts all policies in force`, async () => {
    put(0);
    await policyd.start();
    for (const [index, name] of NAMES.entries()) {
      const pod = comingPod(lab, name, 10 + index);
      pods.set(name, pod);
      await succeed(startCall("ADD", nodes.node1, pod, "victims", policyd.overrides));
    }
    for (const family of FAMILIES) {
      const socket = ProbeSocket.open(of("victim").namespace, family, SocketType.DATAGRAM);
      assert.equal(socket.bindOwn(family, PORT), 0);
      sockets.push(socket);
    }
    for (let round = 1; round <= ROUNDS; round++) {
      put(round);
      await during(pause(random() * LONGEST_LIFE_MILLISECONDS));
      await policyd.kill();
      if (round % 2 === 1) {
        // The next daemon is killed while it starts.
        const starting = policyd.start().catch(() => {});
        await during(pause(random() * 3 * LONGEST_LIFE_MILLISECONDS));
        await policyd.kill();
        await starting;
      }
      await during(policyd.start());
      assert.equal(arrived.attacker, 0, `round ${round}: ${arrived.attacker} of ${sent} denied packets arrived`);
      const before = arrived.friend;
      for (let left = 100; arrived.friend < before + 2 || leftovers().length > 0; left--) {
        assert.ok(
          left > 0,
          `round ${round}: ${arrived.friend - before} allowed packets arrived; ${leftovers().join()}`,
        );
        send("friend");
        await during(pause(50));
      }
    }
    console.log(`      ${sent} packets sent, ${arrived.friend} of them allowed and arrived`);
    await policyd.kill();
    nodes.node1.node.exec("nft", ["delete", "table", "inet", POLICY_TABLE.name]);
    await during(pause(500));
    assert.ok(arrived.attacker > 0, "without the table denied packets arrive");
  });
});
