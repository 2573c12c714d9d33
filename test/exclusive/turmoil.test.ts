import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import os from "node:os";
import process from "node:process";
import { setImmediate as turn } from "node:timers/promises";
import { type Family, FAMILIES } from "../../kernel/ip/address.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { POLICY_TABLE } from "../../policyd/policies/compile/policy_table.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { ProbeSocket, SocketType } from "../lab/probe/socket.ts";
import { type TwoNodes, twoNodes } from "../lab/topology.ts";
import { type ComingPod, comingPod, startCall, succeed } from "../support/policy/first_packet/coming_pod.ts";
import {
  manifestsOf,
  PORTS,
  SENTINEL,
  sentinelChain,
  TurmoilJudge,
  TurmoilObjects,
  type TurmoilState,
} from "../support/policy/turmoil/turmoil_state.ts";
import { PolicydNode } from "../support/daemon/policyd_node.ts";
import { scrape } from "../support/daemon/scrape.ts";
import { listOf } from "../support/services/manifest.ts";
import { requireBridgeNetfilter } from "../support/privilege.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { randomFrom } from "../support/random.ts";
import { hasLongForm } from "../support/long_form.ts";

const isFull = hasLongForm("1,000 pods in place of 24");
/** The number of pods, with the sentinel. */
const PODS = isFull ? 1000 : 24;
/** The number of pods at a time; a later pod gets the address of one that has gone. */
const PLACES = isFull ? 200 : 16;
const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 0x7fff_ffff);
/** The time in which packets that were sent before a state was in force have arrived. */
const MARGIN_MILLISECONDS = 300;
const PACKETS_AT_ONCE = 8;
const PODS_A_KILL = isFull ? 12 : 6;
/** A change is in force within this time, so the daemon is killed before, while or after it writes. */
const LONGEST_LIFE_MILLISECONDS = 400;
const MOST_TOLD = 5;
/** The size of a datagram: sender, receiver and port, two bytes each. */
const SIZE = 6;
const NOBODY = 0xffff;

/** A pod that may send and receive, from before its ADD until its DEL begins. */
interface Present {
  readonly number: number;
  readonly pod: ComingPod;
  readonly sockets: readonly { readonly socket: ProbeSocket; readonly family: Family; readonly port: number }[];
}

/** A state, and the time since when the next one is in force instead. */
interface Past {
  readonly state: TurmoilState;
  until: number;
}

describe(`policies in turmoil (seed ${seed})`, function () {
  this.timeout(isFull ? 60 * 60_000 : 6 * 60_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let policyd: PolicydNode;
  let kernel: NftablesSocket;
  const burners: ChildProcess[] = [];
  const present = new Map<number, Present>();
  const pasts: Past[] = [];
  const judge = new TurmoilJudge();
  const random = randomFrom(seed);
  const seen = { sent: 0, denied: 0, arrived: 0 };
  const leaks: string[] = [];
  /** The test's present action. */
  let doing = "";

  before(async function () {
    requireBridgeNetfilter(this);
    lab = suiteLab(this, "turmoil");
    nodes = twoNodes(lab, { bridgeNetfilter: true });
    // With this timeout a flow with the ports of an earlier one is a new flow.
    nodes.node1.node.writeSysctl("net/netfilter/nf_conntrack_udp_timeout", "1");
    policyd = new PolicydNode(lab, nodes.node1, "60s");
    kernel = nodes.node1.node.inside(() => new NftablesSocket(lab.calls));
  });

  after(() => {
    for (const burner of burners) burner.kill("SIGKILL");
    for (const { sockets } of present.values()) for (const { socket } of sockets) socket.close();
    kernel?.close();
  });

  const hostOf = (number: number): number => 2 + (number % PLACES);
  const nameOf = (number: number): string => (number === 0 ? SENTINEL : `p${number}`);

  function open(number: number): Present {
    const pod = comingPod(lab, nameOf(number), hostOf(number));
    const sockets = FAMILIES.flatMap((family) =>
      PORTS.map((port) => {
        const socket = ProbeSocket.open(pod.namespace, family, SocketType.DATAGRAM);
        assert.equal(socket.bindOwn(family, port), 0);
        return { socket, family, port };
      }),
    );
    return { number, pod, sockets };
  }

  /** Returns the states that may have been in force when a packet that arrives now was sent. */
  const possible = (sentAfter: number): readonly TurmoilState[] =>
    pasts.filter(({ until }) => until >= sentAfter).map(({ state }) => state);

  function send(): void {
    const all = [...present.values()];
    const sender = all[Math.floor(random() * (all.length + 1))];
    const receiver = all[Math.floor(random() * all.length)];
    if (receiver === undefined || receiver === sender) return;
    const family = random() < 0.5 ? 4 : 6;
    const port = PORTS[random() < 0.5 ? 0 : 1];
    const data = new Uint8Array(Uint16Array.of(sender?.number ?? NOBODY, receiver.number, port).buffer);
    const from: LabNamespace = sender?.pod.namespace ?? nodes.router;
    const socket = ProbeSocket.open(from, family, SocketType.DATAGRAM);
    const isSent = socket.sendTo(data, { address: receiver.pod.addresses[family], port }) >= 0;
    socket.close();
    if (!isSent) return;
    seen.sent++;
    const { egress, ingress } = judge.mayPass(possible(performance.now()), packetOf(data, receiver, family, port));
    if (!(egress && ingress)) seen.denied++;
  }

  const packetOf = (data: Uint8Array, { number }: Present, family: Family, port: number) => {
    const [sender = NOBODY] = new Uint16Array(data.buffer, data.byteOffset, SIZE / 2);
    return { source: sender === NOBODY ? undefined : nameOf(sender), destination: nameOf(number), family, port };
  };

  /**
   * Checks all packets that have arrived.
   *
   * @param lookedBefore when this was done last: none of the packets was sent before
   */
  function receive(lookedBefore: number): void {
    for (const receiver of present.values()) {
      for (const { socket, family, port } of receiver.sockets) {
        for (const got of socket.drain()) {
          if (got.kind !== "data" || got.data.length !== SIZE) continue;
          seen.arrived++;
          const packet = packetOf(got.data, receiver, family, port);
          const states = possible(lookedBefore);
          const may = judge.mayPass(states, packet);
          if (may.egress && may.ingress) continue;
          const numbers = states.map(({ number }) => number).join(", ");
          leaks.push(`${JSON.stringify({ ...packet, ...may })} in states ${numbers}, ${doing}`);
        }
      }
    }
  }

  /** Sends and receives until the work settles, which must not fail. */
  async function during(work: Promise<unknown>): Promise<void> {
    const progress = { isOver: false };
    const over = work.finally(() => (progress.isOver = true));
    for (let before = performance.now(); !progress.isOver;) {
      for (let left = PACKETS_AT_ONCE; left > 0; left--) send();
      const now = performance.now();
      await turn();
      receive(before);
      before = now;
    }
    await over;
  }

  const pause = (milliseconds: number): Promise<void> => new Promise((settle) => setTimeout(settle, milliseconds));

  function isInForce(chain: string): boolean {
    const map = { name: "ingress4", key: ["ipv4_addr"], data: "verdict" } as const;
    const address = present.get(0)?.pod.addresses[4];
    const found = kernel.elements(POLICY_TABLE, map).find(({ key }) => key[0] === address)?.data;
    return found !== undefined && "chain" in found && found.chain === chain;
  }

  const isSynced = (): boolean => scrape(nodes.node1.node).get("drawbridge_synced") === 1;

  const leftovers = (): readonly string[] =>
    nodes.node1.node
      .exec("nft", ["list", "tables"])
      .split("\n")
      .filter((line) => /-(closing|kept|policy-opening)$/.test(line));

  /**
   * Makes the daemon read a state twice, and waits until it is in force.
   *
   * @param meanwhile happens before
   */
  async function become(state: TurmoilState, meanwhile = async (): Promise<void> => {}): Promise<void> {
    const before = pasts.at(-1);
    doing = `state ${state.number}`;
    pasts.push({ state, until: Number.POSITIVE_INFINITY });
    const text = listOf(manifestsOf(state, false));
    policyd.put("all.json", text);
    policyd.put("all.json", text);
    if (before === undefined) return;
    await meanwhile();
    const chain = sentinelChain(state);
    const end = performance.now() + 60_000;
    // The sentinel's rules show that the daemon knows the state; those of all pods follow in turns.
    while (!isInForce(chain) || leftovers().length > 0 || !isSynced()) {
      assert.ok(performance.now() < end, `state ${state.number} is not in force: ${leftovers().join()}`);
      await during(pause(20));
    }
    await during(pause(MARGIN_MILLISECONDS));
    before.until = performance.now();
    pasts.splice(0, pasts.length - 4);
  }

  /** Kills the daemon at a random moment, and the next one while it starts. */
  async function kills(): Promise<void> {
    await during(pause(random() * LONGEST_LIFE_MILLISECONDS));
    doing = "a kill";
    await policyd.kill();
    const starting = policyd.start().catch(() => {});
    await during(pause(random() * 3 * LONGEST_LIFE_MILLISECONDS));
    await policyd.kill();
    await starting;
    await during(policyd.start());
  }

  const detach = async (number: number): Promise<void> => {
    const gone = present.get(number);
    if (gone === undefined) return;
    doing = `DEL of ${nameOf(number)}`;
    await during(succeed(startCall("DEL", nodes.node1, gone.pod, "any", policyd.overrides)));
    present.delete(number);
    for (const { socket } of gone.sockets) socket.close();
    lab.remove(gone.pod.namespace);
  };

  const attach = async (number: number, state: TurmoilState): Promise<void> => {
    const one = open(number);
    present.set(number, one);
    doing = `ADD of ${nameOf(number)}`;
    const namespace = state.pods.get(nameOf(number))?.namespace ?? "";
    await during(succeed(startCall("ADD", nodes.node1, one.pod, namespace, policyd.overrides)));
  };

  it(`POL-91 POL-94: no packet of ${PODS} pods arrives that policies deny while pods come, objects change, and daemons are killed at any moment of a change`, async () => {
    const objects = new TurmoilObjects(randomFrom(seed + 1));
    let state = objects.begin(PODS);
    await become(state);
    await policyd.start();
    for (let left = isFull ? os.availableParallelism() : 1; left > 0; left--) {
      burners.push(spawn(process.execPath, ["-e", "for (;;);"], { stdio: "ignore" }));
    }
    for (let number = 0; number < PODS; number++) {
      // The sentinel keeps its place.
      if (number >= PLACES && hostOf(number) === hostOf(0)) continue;
      if (number >= PLACES) await detach(number - PLACES);
      await attach(number, state);
      if (number % 2 === 1) await become((state = objects.change(state)));
      if (number % PODS_A_KILL === PODS_A_KILL - 1) await become((state = objects.change(state)), kills);
    }
    const { sent, denied, arrived } = seen;
    console.log(`      ${sent} sent, ${denied} of them denied, ${arrived} arrived, ${state.number} changes of objects`);
    assert.deepEqual(leaks.slice(0, MOST_TOLD), [], `${leaks.length} packets that policies deny arrived`);
    assert.ok(denied > sent / 20 && arrived > sent / 20, "policies deny some and allow some");

    await policyd.kill();
    nodes.node1.node.exec("nft", ["delete", "table", "inet", POLICY_TABLE.name]);
    await during(pause(1000));
    assert.ok(leaks.length > 0, "without the table denied packets arrive, and the judge sees them");
  });
});
