import assert from "node:assert/strict";
import { mock } from "node:test";
import { type Address, formatAddress, parseAddress } from "../../../../../kernel/ip/address.ts";
import type { FlowTuples } from "../../../../../kernel/conntrack/flow_tuples.ts";
import { matchesOne } from "../../../../../objects/domain_name.ts";
import { SyscallError } from "../../../../../kernel/syscall/syscalls.ts";
import type { Change } from "../../../../../kernel/nftables/encode/change.ts";
import { loggerOf } from "../../../../../policyd/log/logger.ts";
import {
  ANSWER_PREFIX,
  knownElement,
  nameGroupsOf,
  nameSets,
} from "../../../../../policyd/policies/compile/name_rules.ts";
import { nameGroup } from "../../../../../policyd/policies/compile/peer_groups.ts";
import type { ProfileRule } from "../../../../../policyd/policies/compile/profile.ts";
import type { NamedPod } from "../../../../../policyd/policies/live/policy_view.ts";
import { NameLearning, type NameLearningParts } from "../../../../../policyd/policies/names/name_learning.ts";
import { FakeKernelNotifications } from "../../../../support/daemon/fake_notifications.ts";
import { dnsResponse } from "../../../../support/policy/dns_response.ts";
import { loggedMessage, packetBetween, ports } from "../../../../support/policy/logged_packet.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";

const POD = parseAddress("10.244.1.7");
const SERVER = parseAddress("10.244.2.5");
const REMOTE = parseAddress("203.0.113.7");
const GROUP = nameGroup(["*.example.com"]);
const OTHER = nameGroup(["*.example.org"]);
const CONTAINER = "0123456789abcdef0123";

function pod(container = CONTAINER): NamedPod {
  return { container, podKey: "x/a", addresses: [POD], groups: [GROUP], profile: undefined };
}

/** Returns a pod with NetworkPolicies, by their keys and the names of their rules. */
function podWith(...rules: readonly (readonly [policy: string, name: string])[]): NamedPod {
  const isolation = {
    policies: [],
    rules: rules.map(([policy, name], index): ProfileRule => ({
      peers: [nameGroup([name])],
      ports: undefined,
      action: "allow",
      origin: { kind: "NetworkPolicy", policy, index },
    })),
    omitted: [],
  };
  const profile = { direction: "egress", key: "", admin: [], isolation, shadow: undefined, baseline: [] } as const;
  return { ...pod(), profile, groups: nameGroupsOf(profile) };
}

function flowBetween(source: Address, remote: Address): FlowTuples {
  return {
    family: 4,
    original: { source, destination: remote, sourcePort: 40_000, destinationPort: 443 },
    // From the node's address, which the answers come back to.
    reply: { source: remote, destination: parseAddress("192.0.2.1"), sourcePort: 443, destinationPort: 40_000 },
  };
}

/** Returns changes of elements as `add elements 203.0.113.7`. */
function texts(changes: readonly Change[]): readonly string[] {
  return changes.flatMap((change) =>
    "elements" in change
      ? change.elements.map(({ key }) => `${change.kind} ${formatAddress(key[1] as Address)}`)
      : change.kind,
  );
}

/** Returns the changes that give an address its element, as {@link texts}. */
function replacement(address: string): readonly string[] {
  return ["add", "delete", "add"].map((kind) => `${kind} elements ${address}`);
}

describe("addresses of names over a restart of the daemon", () => {
  /** Starts a daemon that finds an address which a pod knows by a name, for some more milliseconds. */
  async function started(pods: () => readonly NamedPod[], expiration = 0, name = "api.example.com") {
    const commits: (readonly Change[])[] = [];
    const lines: string[] = [];
    const state: { isRefusing: boolean | string } = { isRefusing: false };
    const clock = new FakeClock();
    const flows: FlowTuples[] = [];
    const set = nameSets(GROUP)[4];
    const owner = { container: CONTAINER, name };
    const found = { ...knownElement(POD, REMOTE, owner, 60_000), expiration };
    const kernel: Pick<NameLearningParts["kernel"], "elements"> = {
      elements: (_, asked) => (asked.name === set.name ? [found] : []),
    };
    const learning = new NameLearning({
      group: 108,
      queue: "none",
      namedPods: pods,
      isOfCluster: () => false,
      clusterDomain: "k8s.example.com",
      kernel: { ...kernel, sets: () => [{ name: "known4" }, { name: set.name }] as never },
      ruleset: {
        commitBeside: (changes) => {
          const isOf = (change: Change): boolean => "set" in change && change.set.name === state.isRefusing;
          if (state.isRefusing === true || changes.some(isOf)) throw new SyscallError("netlink send", 105);
          commits.push(changes);
        },
      },
      clock,
      eachFlow: async (_, see) => flows.forEach(see),
      logger: loggerOf("warn", (_, message) => lines.push(message)),
    });
    await learning.prepare();
    return { learning, commits, clock, flows, lines, state };
  }

  it("NAME-11: a connection that a pod began by a name is allowed after a restart, and the kernel's own times stay", async () => {
    const { learning, commits } = await started(() => [pod()]);
    assert.equal(knows(learning, GROUP, REMOTE), true);
    assert.equal(knows(learning, OTHER, REMOTE), false);
    learning.rulesInForce();
    learning.verdictsChanged({ addresses: "all", withFlows: "all" });
    assert.deepEqual([commits, knows(learning, GROUP, REMOTE)], [[], true]);
  });

  it("NAME-11: a policy that changes after a restart applies at once to what pods know already, for what is left of its time", async () => {
    const { learning, commits, clock } = await started(
      () => [{ ...pod(), groups: [nameGroup(["api.example.com"])] }],
      45_000,
    );
    clock.spend(5020);
    learning.rulesInForce();
    assert.deepEqual(
      commits
        .flat()
        .map((one) => (one.kind === "add elements" ? one.elements.map(({ timeout }) => timeout) : one.kind)),
      [[40_000], "delete elements", [40_000]],
      "whole seconds, which times to live are",
    );
  });

  it("NAME-02 FLOW-07: after a restart names of the cluster's own domain do not count, and an address whose name was too long to be kept has none", async () => {
    const inside = await started(() => [pod()], 45_000, "db.shop.svc.k8s.example.com");
    assert.equal(knows(inside.learning, GROUP, REMOTE), false);
    const learner = podWith(["x/all", "*.example.com"]);
    const long = await started(() => [learner], 45_000, `${"a".repeat(63)}.${"b".repeat(52)}.example.com`);
    long.learning.rulesInForce();
    assert.equal(long.learning.nameOf(POD, REMOTE), undefined);
    assert.deepEqual([...long.learning.knownByPolicy(9)], [["NetworkPolicy x/all", []]]);
  });

  it("NAME-11 NAME-03: an address whose name was too long to be kept counts after a restart and, while the pod has a connection, always has nine more minutes without a daemon", async () => {
    const name = `${"a".repeat(63)}.${"b".repeat(52)}.example.com`;
    const { learning, commits, clock, flows } = await started(() => [pod()], 30_000, name);
    flows.push(flowBetween(POD, REMOTE));
    learning.rulesInForce();
    assert.deepEqual(commits.splice(0).map(texts), [replacement("203.0.113.7")]);
    const ends: number[] = [];
    for (let looks = 0; looks < 90; looks++) {
      clock.pass(20_000);
      await new Promise(setImmediate);
      const last = commits.splice(0).flat().at(-1);
      if (last?.kind === "add elements") ends.push(clock.now() + (last.elements[0]?.timeout ?? 0));
      assert.ok((ends.at(-1) ?? 0) - clock.now() >= 540_000, `${ends.join()} at ${clock.now()}`);
    }
    assert.ok(ends.length <= 7, "not every look writes it");
  });

  it("NAME-01: a pod that gets the address of a former pod knows nothing of it", async () => {
    const { learning, commits } = await started(() => [pod("fedcba9876543210")]);
    learning.rulesInForce();
    assert.deepEqual(commits.map(texts), [["add elements 203.0.113.7", "delete elements 203.0.113.7"]]);
    assert.equal(knows(learning, GROUP, REMOTE), false);
  });

  it("NAME-01: what a pod knew goes with it, before another pod has its address", async () => {
    let pods: readonly NamedPod[] = [pod()];
    const { learning, commits } = await started(() => pods);
    learning.rulesInForce();
    pods = [{ ...pod("other"), addresses: [parseAddress("10.244.1.8")] }];
    learning.rulesInForce();
    assert.deepEqual(commits.map(texts), [["add elements 203.0.113.7", "delete elements 203.0.113.7"]]);
    assert.equal(knows(learning, GROUP, REMOTE), false);
  });

  /** Lets a pod get answers. @returns a function for one answer that returns the times in the elements written for it */
  async function answering(learner = pod()) {
    const { commits, ...others } = await started(() => [learner]);
    const { learning } = others;
    const events = new FakeKernelNotifications();
    learning.start(events);
    assert.deepEqual(events.sources, []);
    learning.rulesInForce();
    await new Promise(setImmediate);
    const answer = (name: string, seconds: number, addresses = [REMOTE], prefix = ANSWER_PREFIX): readonly number[] => {
      const message = dnsResponse(
        name,
        addresses.map((address) => [name, address, seconds]),
      );
      const udp = Buffer.concat([ports(53, 40_000), message]);
      udp.writeUInt16BE(udp.length, 4);
      events.emit("nflog", [loggedMessage(prefix, packetBetween(SERVER, POD, 17, udp))]);
      const added = commits.splice(0).flat();
      return added.flatMap((one) =>
        one.kind === "add elements" ? one.elements.map(({ timeout = 0 }) => timeout) : [],
      );
    };
    others.lines.length = 0;
    return { ...others, commits, answer };
  }

  it("NAME-03: an address still counts after its time while the pod has a connection to it, and no longer after that", async () => {
    const { learning, clock, answer, flows } = await answering();
    answer("a.example.com", 60, [REMOTE, parseAddress("203.0.113.8")]);
    flows.push(flowBetween(POD, REMOTE), flowBetween(SERVER, parseAddress("203.0.113.8")));
    const isKnown = async (seconds: number): Promise<readonly boolean[]> => {
      for (let passed = 0; passed < seconds; passed += 20) {
        clock.pass(20_000);
        await new Promise(setImmediate);
      }
      return [REMOTE, parseAddress("203.0.113.8")].map((one) => learning.nameOf(POD, one) !== undefined);
    };
    assert.deepEqual(await isKnown(40), [true, true]);
    assert.deepEqual(await isKnown(600), [true, false]);
    flows.length = 0;
    assert.deepEqual(await isKnown(20), [true, false]);
    assert.deepEqual(await isKnown(920), [false, false]);
  });

  it("NAME-02 NAME-07: an address counts as long as the longest of its names, and is written only when that is later", async () => {
    const { learning, clock, answer } = await answering();
    assert.deepEqual(answer("a.example.com", 600), [600_000, 600_000]);
    assert.deepEqual(answer("b.example.com", 60), []);
    assert.deepEqual(answer("a.example.com", 600), []);
    assert.deepEqual(answer("b.example.com", 900), [900_000, 900_000]);
    assert.deepEqual(answer("b.example.org", 900), []);
    assert.deepEqual(answer("a.example.com", 3000, [REMOTE], "another rule"), []);
    clock.spend(999);
    assert.deepEqual(answer("b.example.com", 900), [], "less than a second later");
    clock.spend(1);
    assert.deepEqual(answer("b.example.com", 900), [900_000, 900_000]);
    for (const name of ["db.shop.svc.k8s.example.com", "k8s.example.com"])
      assert.deepEqual(answer(name, 3000), [], name);
    const { answers, known, refused } = learning.counts();
    assert.equal(refused, 2, "names of the cluster's domain, which a policy's pattern has around it");
    assert.deepEqual([answers, known], [6, 1]);
  });

  it("PSTATUS-04: each policy has the addresses that its own names stand for, the last learned first, until their time is over", async () => {
    const rules = [
      ["x/b", "b.example.com"],
      ["x/all", "*.example.com"],
      ["x/all", "a.example.com"],
      ["x/none", "c.example.com"],
    ] as const;
    const { learning, clock, answer } = await answering(podWith(...rules));
    answer("a.example.com", 60);
    answer("b.example.com", 600, [parseAddress("203.0.113.8")]);
    const known = (most = 9) =>
      [...learning.knownByPolicy(most)].map(([policy, all]) => [
        policy,
        ...all.map(({ name, pod: key, address, seconds }) => `${name} ${key} ${formatAddress(address)} ${seconds}`),
      ]);
    const [a, b] = ["a.example.com x/a 203.0.113.7 60", "b.example.com x/a 203.0.113.8 600"];
    const none = ["NetworkPolicy x/none"];
    assert.deepEqual(known(), [["NetworkPolicy x/b", b], ["NetworkPolicy x/all", b, a], none]);
    assert.deepEqual(known(1)[1], ["NetworkPolicy x/all", b]);
    clock.spend(60_000);
    const later = b?.replace("600", "540");
    assert.deepEqual(known(), [["NetworkPolicy x/b", later], ["NetworkPolicy x/all", later], none]);
  });

  it("NAME-01: what the kernel refuses to write is written a second later, and what a pod knew is removed although it has ended meanwhile", async () => {
    let pods: readonly NamedPod[] = [pod()];
    const { learning, commits, clock, state } = await started(() => pods, 45_000);
    state.isRefusing = true;
    learning.rulesInForce();
    assert.deepEqual(
      learning.problems().map((text) => text.startsWith("domain names: netlink send")),
      [true],
    );
    clock.spend(999);
    state.isRefusing = false;
    assert.deepEqual(commits, []);
    clock.pass(1);
    const removal = ["add elements 203.0.113.7", "delete elements 203.0.113.7"];
    assert.deepEqual([commits.splice(0).map(texts), learning.problems()], [[[...removal, removal[0]]], []]);
    state.isRefusing = true;
    pods = [pod("fedcba9876543210")];
    learning.rulesInForce();
    state.isRefusing = false;
    clock.pass(1000);
    assert.deepEqual(commits.map(texts), [removal]);
  });

  it("NAME-01: where the kernel refuses the elements of one set, those of the others are written a second later", async () => {
    const { clock, answer, commits, learning, state } = await answering({ ...pod(), groups: [GROUP, OTHER] });
    state.isRefusing = nameSets(GROUP)[4].name;
    assert.deepEqual(answer("a.example.com", 60), []);
    answer("b.example.org", 60, [parseAddress("203.0.113.8")]);
    clock.pass(1000);
    assert.deepEqual(commits.splice(0).map(texts), [replacement("203.0.113.8")]);
    const isReported = (): boolean => learning.problems().some((text) => text.startsWith("domain names: netlink send"));
    assert.equal(isReported(), true);
    state.isRefusing = false;
    clock.pass(1000);
    assert.deepEqual([commits.map(texts), isReported()], [[replacement("203.0.113.7")], false]);
  });

  it("NAME-07: the addresses that go are deleted before others are added, since the set may be full", async () => {
    const { clock, answer, commits, state } = await answering();
    state.isRefusing = true;
    for (let i = 0; i < 42; i++) {
      answer(
        "a.example.com",
        60,
        Array.from({ length: 100 }, (_, k) => parseAddress(`198.51.${i}.${k}`)),
      );
      clock.spend(1000);
    }
    state.isRefusing = false;
    clock.pass(1000);
    const changes = commits.flat();
    assert.deepEqual(
      changes.map(({ kind }) => kind),
      ["add elements", "delete elements", "add elements", "delete elements", "add elements"],
    );
    const added = changes.map((one) => ("elements" in one ? one.elements.length : 0));
    assert.deepEqual(added, [105, 105, 4096, 4096, 4096], "with the one of the restart");
  });

  it("NAME-07: an answer with 128 addresses of a name costs no more looks at patterns and lines of the log than one with one", async () => {
    const { learning, answer, lines, clock } = await answering();
    const names = Array.from({ length: 16 }, (_, i) => `${"a.".repeat(100)}n${i}.example.com`);
    const addresses = Array.from({ length: 128 }, (_, i) => parseAddress(`198.51.100.${i}`));
    for (const name of names) answer(name, 60, addresses);
    clock.spend(1500);
    // Of each label that a name has, and of nothing else.
    const dots = mock.method(String.prototype, "indexOf");
    const looks = (...asked: Parameters<typeof answer>): number => {
      dots.mock.resetCalls();
      answer(...asked);
      return dots.mock.calls.filter(({ arguments: [sought] }) => sought === ".").length;
    };
    const [one, all] = [[parseAddress("198.51.101.1")], addresses].map((some) => looks(names[0] ?? "", 60, some));
    dots.mock.restore();
    assert.deepEqual([one, all, lines], [103, 103, []]);
    answer(
      "a.example.com",
      60,
      Array.from({ length: 128 }, (_, i) => parseAddress(`10.0.0.${i}`)),
    );
    assert.deepEqual([lines.length, learning.counts().refused], [1, 128]);
  });

  it("NAME-07: of a name with new addresses in each answer a pod learns 4,096 at once, and one more each 10 ms", async () => {
    const { learning, clock, answer } = await answering();
    for (let i = 0; i < 50; i++)
      answer(
        "a.example.com",
        60,
        Array.from({ length: 100 }, (_, k) => parseAddress(`198.51.${i}.${k}`)),
      );
    assert.deepEqual([learning.counts().known, learning.counts().dropped], [4096, 904 + 1], "the restart's one goes");
    assert.deepEqual(answer("a.example.com", 60), []);
    clock.spend(10);
    assert.equal(answer("a.example.com", 60).at(-1), 60_000);
  });

  it("NAME-07: a pod whose policies have 1,000 lists with the same name knows few addresses, and writes few elements", async () => {
    const groups = Array.from({ length: 1000 }, (_, i) => nameGroup([`n${i}.example.org`, "*.example.com"]));
    const { learning, answer } = await answering({ ...pod(), groups });
    const written = Array.from(
      { length: 100 },
      (_, i) => answer("a.example.com", 60, [parseAddress(`198.51.100.${i}`)]).length,
    );
    assert.equal(learning.counts().known, 4);
    const sum = written.reduce((all, count) => all + count, 0);
    assert.ok(sum <= 5 * 3 * groups.length, `${sum} elements`);
  });

  it("NAME-07: an address that a pod asks for again is not the first to go, even if it no longer counts", async () => {
    const { learning, clock, answer } = await answering();
    answer("a.example.com", 3600);
    for (let i = 0; i < 41; i++) {
      const addresses = Array.from({ length: 100 }, (_, k) => parseAddress(`198.51.${i}.${k}`));
      answer("b.example.com", 60, addresses.slice(0, i === 40 ? 94 : 100));
    }
    assert.deepEqual([learning.counts().known, learning.counts().dropped], [4095, 0], "the first has two names");
    clock.spend(10);
    assert.deepEqual(answer("a.example.com", 600), []);
    answer("b.example.com", 60, [parseAddress("198.51.99.1")]);
    assert.equal(knows(learning, GROUP, REMOTE), true);
    assert.equal(knows(learning, GROUP, parseAddress("198.51.0.0")), false);
  });
});

/** Whether a pod has got an address for one of a group's names. */
function knows(learning: NameLearning, { names }: { readonly names: readonly string[] }, remote: Address): boolean {
  return learning.knownNames(POD, remote).some((name) => matchesOne(names, name));
}
