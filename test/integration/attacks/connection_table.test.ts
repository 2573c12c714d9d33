import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { forgetConnections } from "../../support/daemon/connections.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { requireKernel } from "../../support/privilege.ts";
import { readFileSync } from "node:fs";
import type { Address } from "../../../kernel/ip/address.ts";
import { type MacAddress, parseMac } from "../../../kernel/ip/mac.ts";
import { add } from "../../lab/cni.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { twoNodes, UPLINK, type WiredNode } from "../../lab/topology.ts";
import { imageStart } from "../../bench/daemon/image_start.ts";
import { Flood, type FloodTurn, HANDSHAKE } from "../../support/daemon/flood.ts";
import { addressesOf } from "../../support/host_ports/localhost_node.ts";
import { configured, type DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { until } from "../../support/until.ts";

const PORT = 7000;
/** The ports where the accomplice answers with raw packets; no socket listens there. */
const ATTACK_PORTS = [7001, 7002] as const;
/** The number of source ports of one address: with four addresses they make 262,140 connections. */
const PORTS = 65_535;
const SLICE = 4096;

interface Attacker {
  readonly pod: LabPod;
  readonly addresses: readonly Address[];
  readonly flood: Flood;
}

/** A node with two hostile pods, their accomplice at the router, and a pod that only tries to connect. */
class CrowdedNode {
  readonly lab: Lab;
  readonly wired: WiredNode;
  readonly router: LabNamespace;
  readonly policyd: PolicydNode;
  readonly prober: Prober;
  attackers: readonly Attacker[] = [];
  other: LabPod | undefined;
  daemon: DaemonProcess | undefined;
  #answers: Flood | undefined;

  constructor(lab: Lab) {
    this.lab = lab;
    ({ node1: this.wired, router: this.router } = twoNodes(this.lab));
    this.policyd = new PolicydNode(this.lab, this.wired);
    this.prober = new Prober(this.lab);
  }

  /** Starts the daemon as a node runs it, and attaches the pods. */
  async start(configuration: Readonly<Record<string, unknown>>): Promise<void> {
    // The image's options decide how V8 and malloc return memory to the kernel.
    const { nodeOptions, environment } = imageStart();
    Object.assign(process.env, environment);
    this.daemon = await this.policyd.start([configured(this.lab.scratch, configuration)], nodeOptions);
    const pods = ["hostile1", "hostile2", "other"].map((name) => {
      const pod = this.lab.pod(name);
      assert.equal(add(this.wired, pod, this.policyd.overrides).error, undefined);
      return pod;
    });
    this.other = pods[2];
    this.attackers = pods.slice(0, 2).map((pod) => ({
      pod,
      addresses: addressesOf(pod),
      flood: new Flood(pod, "eth0", gatewayMac(pod)),
    }));
    for (const namespace of [this.router, ...pods]) silence(namespace);
    this.#answers = new Flood(this.router, "to-node1", this.wired.node.link(UPLINK).mac ?? assert.fail());
    for (const address of this.wired.routerAddresses) {
      for (const protocol of ["tcp", "udp"] as const) {
        this.prober.listen(protocol, { namespace: this.router, address, port: PORT });
      }
    }
  }

  get connections(): number {
    return Number(this.wired.node.readSysctl("net/netfilter/nf_conntrack_count"));
  }

  get capacity(): number {
    return Number(this.wired.node.readSysctl("net/netfilter/nf_conntrack_max"));
  }

  /** Returns the daemon's resident memory in megabytes. */
  memory(): number {
    const status = readFileSync(`/proc/${this.daemon?.child.pid}/status`, "latin1");
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
  }

  /**
   * Makes both pods open connections to the accomplice from all ports of all their addresses; the accomplice answers
   * each.
   */
  async attack(port: number): Promise<void> {
    for (let first = 1; first <= PORTS; first += SLICE) {
      for (const { addresses, flood } of this.attackers) {
        for (const [index, from] of addresses.entries()) {
          const to = this.wired.routerAddresses[index] ?? assert.fail();
          const answers = this.#answers ?? assert.fail();
          await flood.send({ from, to, tcp: HANDSHAKE.syn }, turns(port, first));
          await answers.send({ from: to, to: from, tcp: HANDSHAKE.synAck }, turns(port, first, true));
          await flood.send({ from, to, tcp: HANDSHAKE.ack }, turns(port, first));
        }
      }
    }
  }

  /**
   * Returns how many of 80 simultaneous new connections of the third pod are answered, in both families, by TCP and
   * UDP.
   */
  async answered(): Promise<number> {
    const from = this.other ?? assert.fail();
    const flows = this.wired.routerAddresses.flatMap((address) =>
      (["tcp", "udp"] as const).flatMap((protocol) =>
        Array.from({ length: 20 }, () => ({ protocol, from, to: { address, port: PORT } })),
      ),
    );
    const results = await this.prober.run(flows, { timeoutMilliseconds: 2000 });
    return results.filter(({ reached }) => reached).length;
  }

  close(): void {
    for (const { flood } of this.attackers) flood[Symbol.dispose]();
    this.#answers?.[Symbol.dispose]();
  }
}

function* turns(attacked: number, first: number, isAnswer = false): Generator<FloodTurn> {
  for (let port = first; port < Math.min(first + SLICE, PORTS + 1); port++) {
    yield isAnswer ? { sourcePort: attacked, destinationPort: port } : { sourcePort: port, destinationPort: attacked };
  }
}

/** Prevents a kernel from resetting connections that exist only as raw packets. */
function silence(namespace: LabNamespace): void {
  const ports = `{ ${ATTACK_PORTS.join(", ")} }`;
  const rule = `tcp flags rst tcp sport ${ports} drop; tcp flags rst tcp dport ${ports} drop;`;
  namespace.exec(
    "nft",
    ["-f", "-"],
    `table inet quiet {\n chain out {\n type filter hook output priority 0; ${rule}\n }\n}\n`,
  );
}

/** Returns the MAC address to which a pod sends packets for other networks. */
function gatewayMac(pod: LabPod): MacAddress {
  const [, text = ""] = /lladdr (\S+)/.exec(pod.exec("ip", ["-4", "neighbour", "show", "dev", "eth0"])) ?? [];
  return parseMac(text);
}

/** The milliseconds after the pods' ADDs in which the daemon comes to rest. */
const REST_MILLISECONDS = 10_000;

const MOST_ROUNDS = 3;

/** Runs the attack's steps on a node of their own. */
async function on(
  name: string,
  configuration: Readonly<Record<string, unknown>>,
  steps: (node: CrowdedNode) => Promise<void>,
): Promise<void> {
  using lab = createLab(name);
  const node = new CrowdedNode(lab);
  try {
    await node.start({ ...configuration, masquerade: false });
    await steps(node);
  } finally {
    node.close();
  }
}

describe("a table of connections that pods fill together", function () {
  this.timeout(300_000);

  before(function () {
    requireKernel(this);
  });

  it("without a limit four addresses of two pods keep a third pod from connecting", async function () {
    requireLongForm(this, "filling the table takes too long");
    await on("crowd-open", { connectionLimit: 0 }, async (node) => {
      assert.ok(node.capacity <= 4 * PORTS + 1000, `nf_conntrack_max is ${node.capacity}; expected 262144 at most`);
      assert.equal(await node.answered(), 80);
      let answered = 80;
      // On a busy machine the kernel drops some frames of the attack.
      for (let round = 0; round < MOST_ROUNDS && answered >= 40; round++) {
        await node.attack(ATTACK_PORTS[0]);
        assert.ok(node.connections > node.capacity - 1000, `the attack did not work: ${node.connections} connections`);
        answered = await node.answered();
      }
      assert.ok(answered < 40, `${answered} were answered with a full table`);
    });
  });

  it("GUARD-08 MEM-02: with shares four addresses of two pods keep no third pod from connecting; the daemon frees its memory", async () => {
    await on("crowd-shares", {}, async (node) => {
      await pause(REST_MILLISECONDS);
      const fresh = node.memory();
      // The second round continues while the connection brake is in force, until shares are needed.
      for (const port of ATTACK_PORTS) await node.attack(port);
      assert.equal(await node.answered(), 80, `with ${node.connections} connections`);
      await until(
        () => node.connections <= node.capacity * (13 / 16),
        () => `${node.connections} of ${node.capacity} connections stay`,
      );
      const log = node.daemon?.log() ?? "";
      for (const pod of ["hostile1", "hostile2"]) {
        assert.match(log, new RegExp(`pod has too many connections: no further ones begin pod=default/${pod} `));
      }
      assert.doesNotMatch(log, /too many connections: no further ones begin pod=default\/other /);
      // So no further sweep is needed.
      forgetConnections(node.wired.node);
      await until(
        () => node.memory() <= 1.2 * fresh,
        () => `${node.memory()} MB after the sweeps, ${fresh} MB after the start`,
      );
    });
  });
});
