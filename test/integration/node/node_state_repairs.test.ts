import assert from "node:assert/strict";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import * as fc from "fast-check";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { deleteAddress } from "../../../kernel/route/interface_address.ts";
import type { Lab } from "../../lab/lab.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { HarmedNode } from "../../support/node_state/harmed_node.ts";
import { BRIDGE, HARMS } from "../../support/node_state/harms.ts";
import { roundsFor } from "../../support/long_form.ts";
import { until } from "../../support/until.ts";

/** How long a program keeps removing an address, and how long it pauses between attempts. */
const INSISTING_MILLISECONDS = 6000;
const INSISTING_PAUSE = 10;

const ROUNDS = roundsFor("rounds", 3, 300);
/** In one of this number of rounds no daemon runs while the harm is done. */
const ROUNDS_OF_A_DEATH = 3;

interface Round {
  readonly harms: readonly { readonly index: number; readonly port: number }[];
  readonly isDaemonDead: boolean;
}

const harm = fc.record({ index: fc.nat(HARMS.length - 1), port: fc.nat(2) });
const rounds: fc.Arbitrary<Round> = fc.record({
  harms: fc.array(harm, { minLength: 2, maxLength: 2 }),
  isDaemonDead: fc.nat(ROUNDS_OF_A_DEATH - 1).map((number) => number === 0),
});

describe("the node's network state, harmed by other programs", function () {
  this.timeout(240_000 + ROUNDS * 20_000);
  let lab: Lab;
  let harmed: HarmedNode;

  before(async function () {
    lab = suiteLab(this, "node-state");
    harmed = new HarmedNode(lab);
    await harmed.start();
  });

  it("the lab's pods reach each other, the node and the outside, and the daemon reports no problem", async () => {
    assert.deepEqual(await harmed.lost(), []);
    assert.deepEqual(harmed.daemon.status().problems, []);
  });

  it("a bridge that is set down cuts pods off in both families where no daemon runs", async () => {
    await harmed.policyd.kill();
    harmed.wired.node.exec("ip", ["link", "set", BRIDGE, "down"]);
    assert.ok((await harmed.lost()).length >= 8);
    await harmed.restart();
    await harmed.demandRepair("the daemon is started", () => {});
  });

  it("each harm to the tunnel, our routes and the plugin's files lasts where no daemon runs", async () => {
    const whole = harmed.state();
    await harmed.policyd.kill();
    const first = HARMS.findIndex(({ name }) => name === "the tunnel is deleted");
    const harms = HARMS.slice(first).filter(({ needsDaemon }) => needsDaemon !== true);
    assert.equal(harms.length, 12);
    // Harm to links and directories comes last, because what is in them goes with them.
    for (const { name, commit } of harms.toReversed()) {
      const before = harmed.state();
      commit(harmed.wired.node, harmed.portOf(1), harmed.files);
      assert.notDeepEqual(harmed.state(), before, name);
    }
    const lost = await harmed.lost();
    assert.ok(
      lost.some((flow) => flow.includes("a to 10.244.2.2")),
      lost.join(),
    );
    await harmed.restart();
    await until(() => JSON.stringify(harmed.state()) === JSON.stringify(whole), "the next daemon repairs all of it");
  });

  for (const { name, commit } of HARMS) {
    it(`STATE-01 STATE-02: when ${name}, all pods work again within a second and foreign links stay as they are`, async () => {
      await harmed.demandRepair(name, () => commit(harmed.wired.node, harmed.portOf(1), harmed.files));
      // One harm after another may look like a program that keeps changing things.
      assert.deepEqual(
        harmed.daemon.status().problems.filter((problem) => !problem.includes("keeps changing")),
        [],
      );
    });
  }

  it(`STATE-01 STATE-02: after each of ${ROUNDS} random pairs of harm, some of them while no daemon runs, all pods work again within a second`, async () => {
    const property = fc.asyncProperty(rounds, async ({ harms, isDaemonDead }) => {
      const { node } = harmed.wired;
      const names = harms.map(({ index }) => HARMS[index]?.name).join(" and ");
      await harmed.demandRepair(`${names}${isDaemonDead ? ", without a daemon" : ""}`, async () => {
        if (isDaemonDead) await harmed.policyd.kill();
        const ports = [0, 1, 2].map((port) => harmed.portOf(port));
        for (const { index, port } of harms) {
          const one = HARMS[index];
          // Records that go while no daemon runs are lost.
          if (!isDaemonDead || one?.needsDaemon !== true) one?.commit(node, ports[port] ?? "", harmed.files);
        }
        if (isDaemonDead) await harmed.restart();
      });
    });
    // The node keeps its state from round to round, so a failure is not shrunk.
    const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 2 ** 31);
    await fc.assert(property, { numRuns: ROUNDS, endOnFailure: true, seed });
    const { flows, state, what } = harmed.worst;
    const median = harmed.repairs.toSorted((a, b) => a - b)[Math.floor(harmed.repairs.length / 2)] ?? 0;
    process.stdout.write(
      `      seed ${seed} (DRAWBRIDGE_SEED replays it), ${ROUNDS} rounds of ${HARMS.length} harms: all pods worked after ${median.toFixed(0)} ms in the median and ${flows.toFixed(0)} at most, and all was as before after ${state.toFixed(0)} ms (${what})\n`,
    );
  });

  it("STATE-03: the daemon reports forwarding that is switched off, and leaves it off until an administrator switches it on", async () => {
    const { node } = harmed.wired;
    node.writeSysctl("net/ipv4/ip_forward", "0");
    const { problems } = await harmed.daemon.statusWhen(
      (status) => status.problems.join().includes("ip_forward"),
      "reported",
    );
    // A look at the ways of pods' packets in this moment finds that none is sent.
    const isTold = (one: string): boolean =>
      /^forwarding: net\.ipv4\.ip_forward = 0: .*sysctl -w net\.ipv4\.ip_forward=1/.test(one);
    assert.ok(problems.some(isTold), problems.join());
    assert.equal(node.readSysctl("net/ipv4/ip_forward"), "0");
    node.writeSysctl("net/ipv4/ip_forward", "1");
    await harmed.daemon.statusWhen(({ problems: left }) => !left.join().includes("ip_forward"), "it is over");
  });

  const DOCKER = [
    ["-P", "FORWARD", "DROP"],
    ["-A", "FORWARD", "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"],
    ["-A", "FORWARD", "-i", "docker0", "!", "-o", "docker0", "-j", "ACCEPT"],
    ["-A", "FORWARD", "-p", "icmp", "--icmp-type", "destination-unreachable", "-j", "ACCEPT"],
  ];
  const nft = (text: string) => (): void => void harmed.wired.node.exec("nft", ["-f", "-"], text);
  const iptables = (tool: string, rules: readonly (readonly string[])[]) => (): void => {
    for (const args of rules) harmed.wired.node.exec(tool, [...args]);
  };
  for (const [name, chain, drop, accept] of [
    [
      "iptables -P FORWARD DROP with rules as of Docker and ufw",
      "ip filter FORWARD",
      iptables("iptables-nft", DOCKER),
      iptables("iptables-nft", [["-I", "FORWARD", "-i", BRIDGE, "-j", "ACCEPT"]]),
    ],
    [
      "ip6tables -P FORWARD DROP",
      "ip6 filter FORWARD",
      iptables("ip6tables-nft", [["-P", "FORWARD", "DROP"]]),
      iptables("ip6tables-nft", [["-A", "FORWARD", "-s", "fd00:244:1::/64", "-j", "ACCEPT"]]),
    ],
    [
      "a chain of nftables that jumps to one which accepts only answers and other links",
      "inet fw out",
      nft(`table inet fw {
        chain most { ct state established accept; iifname != "${BRIDGE}" accept; }
        chain out { type filter hook forward priority 5; policy drop; jump most; }
      }`),
      nft(`add rule inet fw most ip saddr 10.244.0.0/16 accept`),
    ],
    [
      "a chain of nftables for both families before others",
      "inet first forward",
      nft("table inet first { chain forward { type filter hook forward priority -200; policy drop; }; }"),
      nft("add rule inet first forward meta mark 7 accept"),
    ],
  ] as const) {
    it(`STATE-09: ${name} cuts off pods, and is in the status and an Event until a rule of it may accept their packets`, async () => {
      const { node } = harmed.wired;
      if (chain === "ip filter FORWARD") {
        await harmed.policyd.kill();
        await harmed.restart("--sync-period=1s");
      }
      drop();
      assert.ok((await harmed.lost()).length > 0, "pods are cut off");
      const isTold = ({ problems }: { readonly problems: readonly string[] }): boolean =>
        problems.some((one) => one.startsWith(`foreign-drops: chain ${chain} drops what pods send`));
      await harmed.daemon.statusWhen(isTold, "it is reported");
      accept();
      await harmed.daemon.statusWhen((status) => !isTold(status), "it is over");
      assert.match(harmed.daemon.log(), new RegExp(`not as pods need it.*chain ${chain}`));
      node.exec("nft", ["flush", "table", ...chain.split(" ").slice(0, 2)]);
      node.exec("nft", ["delete", "table", ...chain.split(" ").slice(0, 2)]);
    });
  }

  it("FOREIGN-02: a port of another program on the bridge of a running daemon is in the status within seconds, until it is gone", async () => {
    const { node } = harmed.wired;
    node.exec("ip", ["link", "add", "port9", "type", "veth", "peer", "name", "peer9"]);
    node.exec("ip", ["link", "set", "port9", "master", BRIDGE]);
    const isTold = ({ problems }: { readonly problems: readonly string[] }): boolean =>
      problems.some((one) => /^former-plugin: .*port9/.test(one));
    await harmed.daemon.statusWhen(isTold, "it is reported", 5);
    node.exec("ip", ["link", "set", "port9", "nomaster"]);
    await harmed.daemon.statusWhen((status) => !isTold(status), "it is gone", 5);
    node.exec("ip", ["link", "del", "port9"]);
  });

  it("STATE-04: against a program that keeps removing an address, the daemon restores it at most twice a second and reports it once", async () => {
    // The harms before have already looked like such a program.
    await harmed.policyd.kill();
    await harmed.restart();
    const { node } = harmed.wired;
    const { index } = node.link(BRIDGE);
    let removed = 0;
    const end = performance.now() + INSISTING_MILLISECONDS;
    while (performance.now() < end) {
      const [reply] = node.route.batch([deleteAddress(index, parseCidr("10.244.1.1/24"))]);
      if (reply?.error === undefined) removed++;
      await pause(INSISTING_PAUSE);
    }
    // The daemon repairs five times at once, and then twice a second.
    assert.ok(
      removed >= 8 && removed <= 5 + 8 + (INSISTING_MILLISECONDS / 1000) * 2,
      `${removed} repairs in 6 s: ${harmed.daemon.log().slice(-6000)}`,
    );
    const { problems } = harmed.daemon.status();
    assert.equal(problems.filter((problem) => problem.includes(`keeps changing bridge ${BRIDGE}`)).length, 1);
    assert.equal(harmed.daemon.log().match(/error +the node's network state .*keeps changing bridge/g)?.length, 1);
    const since = performance.now();
    while ((await harmed.lost()).length > 0)
      assert.ok(performance.now() - since < 2000, "all pods work after the program has ended");
  });
});
