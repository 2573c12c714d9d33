import assert from "node:assert/strict";
import * as fc from "fast-check";
import { FakeCounters } from "../../../support/nftables/fake/fake_counters.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import type { Verdict } from "../../../../kernel/nftables/model/statement.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { PolicySums } from "../../../../policyd/metrics/policy_sums.ts";
import { PolicyCounters } from "../../../../policyd/metrics/policy_counters.ts";
import { type MergedRules, mergedRules } from "../../../../policyd/metrics/merged_rules.ts";
import { meaningOf } from "../../../../policyd/metrics/policy_rule.ts";
import { counterText, POLICY_RULES } from "../../../../policyd/metrics/counter_text.ts";
import { compileProfile } from "../../../../policyd/policies/compile/compile_profile.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../policyd/policies/compile/options.ts";
import type { Direction } from "../../../../policyd/policies/compile/profile.ts";
import { peerView } from "../../../../policyd/policies/live/flow_evaluator.ts";
import { MemberIndex } from "../../../../policyd/policies/live/index/member_index.ts";
import { POLICY_TABLE } from "../../../../policyd/policies/compile/policy_table.ts";
import { FLATTEN_ABOVE, profileChainName, profileObjects } from "../../../../policyd/policies/compile/profile_chain.ts";
import { storeOf } from "../../../support/evaluate/store.ts";
import { addressOf, threeByThree } from "../../../support/policy/three_by_three.ts";

const [A, B] = ["ingress_00000000000000aa", "ingress_00000000000000bb"];
const DROP: Verdict = { kind: "drop" };
const RETURN: Verdict = { kind: "return" };

const NOTHING_MERGED: MergedRules = {
  // oxlint-disable-next-line require-yield
  *of() {
    return [];
  },
};

function setUp() {
  const nftables = new FakeNftables();
  const kernel = new FakeCounters(nftables);
  const logger = recordingLogger();
  let [now, time] = [0, 5_000];
  const counters = new PolicyCounters({
    table: POLICY_TABLE,
    counters: kernel,
    logger,
    now: () => now,
    time: () => (time += 1000),
  });
  const remove = (chain: string): void => {
    const changes = (["flush chain", "delete chain"] as const).map((kind) => ({ kind, table: POLICY_TABLE, chain }));
    counters.before(changes);
    kernel.delete(chain);
    counters.committed(changes);
  };
  const lines = async (merged = NOTHING_MERGED): Promise<readonly string[]> => {
    now++;
    await counters.refresh(merged);
    return [...counterText(POLICY_RULES, counters.sums.rules(), "packets")]
      .join("")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"));
  };
  return { kernel, nftables, counters, logger, remove, lines };
}

function rule(chain: string, comment: string, verdict: Verdict | undefined = RETURN) {
  return { chain, comment, verdict };
}

const sumOf = (lines: readonly string[], labels: string): number =>
  Number(
    lines
      .find((line) => line.startsWith(`drawbridge_policy_rule_packets_total{${labels}}`))
      ?.split(" ")
      .at(-1),
  );

/** A number of rules above the one that is still printed one by one. */
const COUNT = 3 * FLATTEN_ABOVE;
const OPTIONS = DEFAULT_POLICY_OPTIONS;
const WEB = 'policy="shop/web",direction="ingress",rule="0"';

describe("policyd/metrics: counters of policies", () => {
  it("METRIC-10: the series of one namespace's 32,000 rules are bounded, the other rules count for one series, and another namespace and ClusterNetworkPolicies have theirs", () => {
    const sums = new PolicySums();
    const observe = (kind: string, policy: string, index: number, handle: number): void =>
      sums.observe({ ...rule(A, `${kind} rule ${index} of ${policy}`), handle: BigInt(handle), packets: 1 });
    for (let index = 0; index < 32_000; index++) observe("NetworkPolicy", `shop/p${index % 8}`, index, index);
    for (let index = 0; index < 128; index++) observe("NetworkPolicy", "team/p", index, 40_000 + index);
    observe("ClusterNetworkPolicy", "base", 0, 50_000);
    const series = [...sums.rules()];
    const of = (start: string): number => series.filter(({ policy }) => policy.startsWith(start)).length;
    assert.deepEqual([of("shop/"), of("team/"), of("base"), series.length], [8320, 128, 1, 8450]);
    assert.equal(series.find(({ policy }) => policy === "")?.packets, 32_000 - 8320);
    sums.removed(A);
    sums.prune();
    observe("NetworkPolicy", "shop/p0", 1, 1);
    assert.deepEqual(
      [...sums.rules()].map(({ policy }) => policy),
      ["shop/p0", ""],
      "series that have ended make room",
    );
  });

  it("METRIC-06: a chain that is deleted during a read of all chains is not counted twice", async () => {
    const { kernel, counters, remove } = setUp();
    kernel.count(kernel.add(rule(A, "NetworkPolicy rule 0 of shop/web")), 3);
    kernel.count(kernel.add(rule(B, "isolated by shop/web", DROP)), 2);
    const list = kernel.rules.bind(kernel);
    kernel.rules = function* (table, chain) {
      const reported = [...list(table, chain)];
      // The kernel has returned the chain's rules, and they are not processed yet.
      if (chain === undefined) remove(A);
      yield* reported;
    };
    await counters.refresh(NOTHING_MERGED);
    const [only] = [...counters.sums.rules()];
    assert.equal(only?.packets, 3);
    assert.deepEqual(
      [...counters.sums.drops()].map(({ packets }) => packets),
      [0, 0, 2, 0],
    );
  });

  it("METRIC-06: chains that one batch deletes are read up to a bound on their rules, however long each read takes", async () => {
    const { kernel, counters, lines } = setUp();
    const chains = Array.from({ length: 3 }, (_, place) => `ingress_${place.toString(16).padStart(16, "0")}`);
    const added = chains.map((chain) =>
      Array.from({ length: 600 }, (_, index) => kernel.add(rule(chain, `NetworkPolicy rule ${index} of shop/web`))),
    );
    await lines();
    for (const [first] of added) if (first !== undefined) kernel.count(first, 1);
    counters.before(chains.map((chain) => ({ kind: "flush chain", table: POLICY_TABLE, chain })));
    const [sum] = [...counters.sums.rules()].filter(({ packets }) => packets > 0);
    // The second chain begins within the bound of 1,000 rules, the third one after it.
    assert.equal(sum?.packets, 2);
  });

  it("METRIC-06: for any events between two scrapes, a sum is the number of counted packets", async () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant("count" as const), chain: fc.nat(3), packets: fc.nat(9) }),
      fc.record({ kind: fc.constant("replace" as const), chain: fc.nat(3) }),
      fc.constant({ kind: "scrape" as const }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { kernel, remove, lines } = setUp();
        let version = 0;
        const make = (place: number) => {
          const chain = `ingress_${(++version * 16 + place).toString(16).padStart(16, "0")}`;
          return { chain, handle: kernel.add(rule(chain, "NetworkPolicy rule 0 of shop/web")) };
        };
        const chains = [0, 1, 2, 3].map(make);
        let expected = 0;
        for (const one of steps) {
          if (one.kind === "scrape") {
            assert.equal(sumOf(await lines(), WEB), expected);
            continue;
          }
          const old = chains[one.chain];
          if (old === undefined) continue;
          if (one.kind === "count") {
            kernel.count(old.handle, one.packets);
            expected += one.packets;
          } else {
            chains[one.chain] = make(one.chain);
            remove(old.chain);
          }
        }
        assert.equal(sumOf(await lines(), WEB), expected);
      }),
      { numRuns: 200 },
    );
  });

  it("a failed read leaves the sums as they were and is logged", async () => {
    const { kernel, remove, lines, logger, counters } = setUp();
    kernel.count(kernel.add(rule(A, "NetworkPolicy rule 0 of shop/web")), 3);
    await lines();
    kernel.error = new Error("no memory");
    remove(A);
    assert.equal(sumOf(await lines(), WEB), 3);
    assert.deepEqual(new Set(logger.lines.map(({ message }) => message)), new Set(["counters are not read"]));
    assert.ok(counters.lastCommit > 0);
  });
});

describe("policyd/metrics: merged rules", () => {
  /** The pod's profile, its sets in a fake kernel, and the counters that read them. */
  function merged(direction: Direction, spec: object, others: readonly object[] = []) {
    const parts = setUp();
    const manifest = {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: "many", namespace: "x" },
    };
    const store = storeOf([...threeByThree(), { ...manifest, spec: { podSelector: {}, ...spec } }, ...others]);
    const profile = compileProfile(direction, [...store.networkPolicies.values()], []);
    assert.ok(profile !== undefined);
    const members = new MemberIndex();
    for (const namespace of store.namespaces.values()) members.setNamespace(namespace.name, namespace);
    for (const pod of store.pods.values()) members.setPod(pod.key, pod);
    const rules = mergedRules(
      { peers: peerView(members), profile: (key) => (key === profile.key ? profile : undefined) },
      OPTIONS,
    );
    const sets = profileObjects(profile, OPTIONS)
      .memberSets.flatMap(({ definitions }) => [definitions[4], definitions[6]])
      .filter(({ hasCounters }) => hasCounters === true);
    const { sets: _sets, chains: _chains, ...head } = { ...POLICY_TABLE, sets: [], chains: [] };
    parts.nftables.commit([
      { kind: "add table", table: head },
      ...sets.map((set) => ({ kind: "add set" as const, table: POLICY_TABLE, set })),
    ]);
    const chain = profileChainName(direction, profile.key, OPTIONS);
    const several = parts.kernel.add(rule(chain, "peers at ports"));
    /** Counts packets from or to a pod at a port in the set with this number of fields. */
    const meet = (pod: string, port: string | undefined, packets: number): void => {
      const [number, protocol] = port?.split("/") ?? [];
      const address = parseAddress(addressOf(pod));
      const key = number === undefined ? [address] : [address, String(protocol), Number(number)];
      const set = sets.find((one) => one.key.length === key.length && one.key[0] === "ipv4_addr");
      assert.ok(set !== undefined, `no set of ${key.length} fields`);
      parts.nftables.count(POLICY_TABLE, set.name, { key }, packets);
      parts.kernel.count(several, packets);
    };
    const lines = (): Promise<readonly string[]> => parts.lines(rules);
    const reported = async (): Promise<Readonly<Record<string, number>>> => {
      const counted = (await lines()).filter((line) => line.includes("rule_packets") && !line.endsWith(" 0"));
      return Object.fromEntries(
        counted.map((line) => [/rule="(\d+)"/.exec(line)?.[1] ?? "", Number(line.split(" ").at(-1))]),
      );
    };
    return { ...parts, lines, meet, reported, several };
  }

  const PEERS = [
    { podSelector: { matchLabels: { pod: "a" } } },
    { podSelector: { matchLabels: { pod: "b" } } },
    { podSelector: { matchLabels: { pod: "c" } }, namespaceSelector: { matchLabels: { ns: "x" } } },
  ];
  const rules = (key: "from" | "to") =>
    Array.from({ length: COUNT }, (_, i) => ({
      [key]: [PEERS[i % 3]],
      ports: [{ port: i < COUNT - 3 ? 80 + 2 * Math.floor(i / 3) : "serve-81-tcp" }],
    }));

  it("METRIC-06: a packet counts for the first rule that lets it through, by the elements of the pod's sets", async () => {
    const { meet, reported, counters, lines } = merged("ingress", { ingress: rules("from") });
    meet("x/b", "80/tcp", 5);
    meet("x/c", "82/tcp", 2);
    assert.deepEqual(await reported(), { 1: 5, 5: 2 });
    assert.equal([...counters.sums.knownRules()].length, COUNT);
    assert.equal((await lines()).filter((line) => line.includes("rule_packets")).length, COUNT);
    meet("x/b", "80/tcp", 1);
    assert.deepEqual(await reported(), { 1: 6, 5: 2 });
    assert.deepEqual(Object.fromEntries(counters.sums.several()), { egress: 0, ingress: 0 });
  });

  it("METRIC-06: a port's name is resolved at the destination pod", async () => {
    const { meet, reported } = merged("egress", { policyTypes: ["Egress"], egress: rules("to") });
    meet("x/a", "81/tcp", 3);
    meet("x/b", "84/tcp", 4);
    assert.deepEqual(await reported(), { 7: 4, [COUNT - 3]: 3 });
  });

  it("METRIC-06 SHARE-10: other work gets its turn while rules are found for many elements of one piece", async () => {
    const { kernel, counters } = setUp();
    const definition = { name: "flat_00_v4", key: ["inet_service"], hasCounters: true } as const;
    kernel.elements = function* () {
      yield Array.from({ length: 500 }, (_, port) => ({ element: { key: [port] }, packets: 1 }));
    };
    let [toldApart, most, isOver] = [0, 0, false];
    const now = performance.now.bind(performance);
    // Each element takes a millisecond.
    let elapsed = now();
    performance.now = () => elapsed;
    const work = (): void => {
      [most, toldApart] = [Math.max(most, toldApart), 0];
      if (!isOver) setImmediate(work);
    };
    work();
    try {
      await counters.refresh({
        *of() {
          const ruleOf = (): undefined => {
            elapsed++;
            toldApart++;
          };
          yield;
          return [{ direction: "egress", rules: [], sets: [{ definition, ruleOf }] }];
        },
      });
    } finally {
      performance.now = now;
      isOver = true;
    }
    assert.ok(most > 0 && most <= 16, `${most} elements in one turn`);
  });

  it("METRIC-06: packets that no pod's element has counted are reported apart and count for no rule", async () => {
    const { meet, reported, counters, kernel, several } = merged("ingress", { ingress: rules("from") });
    meet("x/a", "80/tcp", 5);
    kernel.count(several, 7);
    assert.deepEqual(await reported(), { 0: 5 });
    assert.equal(counters.sums.several().get("ingress"), 7);
    const known = [...counters.sums.knownRules()].map(({ packets }) => packets);
    assert.deepEqual(known, [5], "each of the other rules may have let them through");
    meet("y/a", "80/tcp", 2);
    assert.deepEqual(await reported(), { 0: 5 });
    assert.equal(counters.sums.several().get("ingress"), 9);
  });
});

describe("policyd/metrics: the compiler's comments on rules", () => {
  const networkPolicy = (name: string, shadow: boolean, ports: number): object => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name, namespace: "x", annotations: shadow ? { "drawbridge.dev/shadow": "true" } : {} },
    spec: {
      podSelector: {},
      ingress: Array.from({ length: ports }, (_, i) => ({
        from: [{ podSelector: { matchLabels: { app: `a${i}` } } }],
        ports: [{ port: 80 + i }],
      })),
    },
  });
  const clusterPolicy = {
    apiVersion: "policy.networking.k8s.io/v1alpha2",
    kind: "ClusterNetworkPolicy",
    metadata: { name: "c" },
    spec: {
      tier: "Admin",
      priority: 1,
      subject: { namespaces: {} },
      ingress: [
        { action: "Deny", from: [{ namespaces: { matchLabels: { a: "b" } } }] },
        { action: "Accept", from: [{ namespaces: { matchLabels: { a: "c" } } }] },
      ],
    },
  };

  function meanings(objects: readonly object[], dropLog: boolean): ReadonlySet<string> {
    const store = storeOf(objects);
    const policies = [...store.networkPolicies.values()];
    const profile = compileProfile("ingress", policies, [...store.clusterNetworkPolicies.values()]);
    assert.ok(profile !== undefined);
    const { chains } = profileObjects(profile, { ...DEFAULT_POLICY_OPTIONS, dropLog });
    const found = chains.flatMap(({ name: chain, rules }) =>
      rules.flatMap(({ comment, statements }) => {
        const last = statements.at(-1);
        const verdict = last?.kind === "verdict" ? last.verdict : undefined;
        return comment === undefined ? [] : [meaningOf({ chain, comment, verdict })];
      }),
    );
    return new Set(
      found.map((one) => {
        if (one === undefined) return "none";
        if (one.type !== "rule") return `${one.direction} ${one.type}`;
        return `${one.direction} ${one.rule.policy} ${one.rule.rule}${one.isDrop ? " drop" : ""}`;
      }),
    );
  }

  it("METRIC-06 METRIC-02: the metrics understand the compiler's comments, with the drop log and without", () => {
    for (const dropLog of [false, true]) {
      const enforced = meanings([networkPolicy("web", false, 1), clusterPolicy], dropLog);
      for (const expected of ["ingress x/web 0", "ingress isolated", "ingress c 0 drop", "ingress c 1"]) {
        assert.ok(enforced.has(expected), `${expected}: ${[...enforced].join()}`);
      }
      const shadow = meanings([networkPolicy("try", true, 1)], dropLog);
      for (const expected of ["ingress x/try 0", "ingress would drop"]) {
        assert.ok(shadow.has(expected), `${expected}: ${[...shadow].join()}`);
      }
      const many = meanings([networkPolicy("many", false, COUNT)], dropLog);
      for (const expected of ["ingress several rules", "ingress isolated"]) {
        assert.ok(many.has(expected), `${expected}: ${[...many].join()}`);
      }
    }
  });
});
