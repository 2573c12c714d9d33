import assert from "node:assert/strict";
import * as fc from "fast-check";
import { type Connection, flowOf } from "../../../../../cli/policy/live/connection.ts";
import { commonSelector } from "../../../../../cli/policy/live/peer.ts";
import { suggest, type SuggestedPolicy, type Suggestion } from "../../../../../cli/policy/suggest/suggest.ts";
import { type Address, parseAddress } from "../../../../../kernel/ip/address.ts";
import { evaluatePolicy, isAllowed } from "../../../../../objects/semantics/policies/evaluate.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import {
  manifest,
  named,
  namespace as namespaceOf,
  node as nodeOf,
  objectsIn,
  ownedBy,
  pod,
  service,
} from "../../../../support/cli/objects.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { networkPolicy } from "../../../../support/policy/manifest.ts";
import { countedSeed, roundsFor } from "../../../../support/long_form.ts";

const TABLES = roundsFor("random tables", 100, 500);
const NAMESPACES = ["shop", "other"] as const;
/** The workloads of each namespace, with two pods each on two nodes. */
const APPS = ["web", "api", "db"] as const;
const PORTS = [80, 5432, 9000] as const;
const PROTOCOLS = ["TCP", "UDP"] as const;
const OUTSIDE = ["203.0.113.1", "198.51.100.7"] as const;

interface PodInfo {
  readonly namespace: string;
  readonly app: string;
  readonly name: string;
  readonly node: number;
  readonly ip: string;
}

const PODS: readonly PodInfo[] = NAMESPACES.flatMap((namespace, n) =>
  APPS.flatMap((app, a) =>
    [1, 2].map((node) => ({
      namespace,
      app,
      name: `${app}-h-${node}`,
      node,
      ip: `10.244.${node}.${10 * (n + 1) + a}`,
    })),
  ),
);

/** The objects. All pods agree on the name of port 80, and disagree on that of 5432. */
const OBJECTS = objectsIn(
  NAMESPACES.map((name) => namespaceOf(name, `kubernetes.io/metadata.name: ${name}`)).join("") +
    nodeOf("n1", "192.0.2.1") +
    nodeOf("n2", "192.0.2.2") +
    PODS.map(({ namespace: place, app, name, node: number, ip }) =>
      pod(`${place}/${name}`, ip, {
        app,
        labels: "pod-template-hash: h, topology.kubernetes.io/zone: a",
        metadata: ownedBy("ReplicaSet", `${app}-h`),
        spec: `nodeName: n${number}`,
        ports: `{ name: http, containerPort: 80 }, { name: sql, containerPort: ${number === 1 ? 5432 : 5433} }`,
      }),
    ).join(""),
);

const indexWith = (...policies: readonly object[]): PolicyIndex =>
  buildPolicyIndex(storeOf([...OBJECTS, ...policies]), {});

const ENDS: readonly string[] = [...PODS.map(({ ip }) => ip), "192.0.2.1", "192.0.2.2", ...OUTSIDE];
const address = (text: string): Address => parseAddress(text);

function connection(from: string, to: string, port: number, protocol: "TCP" | "UDP" = "TCP"): Connection {
  const [source, destination] = [address(from), address(to)];
  return { protocol, source, sourcePort: 40_000, asked: destination, askedPort: port, destination, port };
}

const connections: fc.Arbitrary<readonly Connection[]> = fc.array(
  fc
    .record({
      from: fc.constantFrom(...ENDS),
      to: fc.constantFrom(...ENDS),
      port: fc.constantFrom(...PORTS),
      protocol: fc.constantFrom(...PROTOCOLS),
    })
    .filter(({ from, to }) => from !== to)
    .map(({ from, to, port, protocol }) => connection(from, to, port, protocol)),
  { maxLength: 25 },
);

const workloadOf = (ip: string): string => {
  const found = PODS.find((one) => one.ip === ip);
  return found === undefined ? ip : `${found.namespace}/${found.app}`;
};
const inShop = (ip: string): boolean => workloadOf(ip).startsWith("shop/");

/** Every possible connection, with the text of its pair of workloads. */
const EVERYTHING = ENDS.flatMap((from) =>
  ENDS.filter((to) => to !== from && (inShop(from) || inShop(to))).flatMap((to) =>
    PORTS.flatMap((port) =>
      PROTOCOLS.map((protocol) => ({
        one: connection(from, to, port, protocol),
        pair: `${workloadOf(from)} ${workloadOf(to)} ${port} ${protocol}`,
      })),
    ),
  ),
);

function isExempt(index: PolicyIndex, one: Connection): boolean {
  const verdict = evaluatePolicy(index, flowOf(one));
  return (
    verdict.kind !== "impossible" &&
    [verdict.egress, verdict.ingress].some(
      ({ decision }) => decision.type === "exempt" && decision.because !== "no pod",
    )
  );
}

const pairsOf = (seen: readonly Connection[]): ReadonlySet<string> =>
  new Set(
    EVERYTHING.filter(({ one }) =>
      seen.some(
        (other) =>
          other.protocol === one.protocol &&
          other.port === one.port &&
          other.source === one.source &&
          other.destination === one.destination,
      ),
    ).map(({ pair }) => pair),
  );

/** Returns a policy without the rule for DNS, which is there whether it was seen or not. */
function withoutDns(policy: SuggestedPolicy): SuggestedPolicy {
  const egress = (policy.spec.egress ?? []).filter((rule) => !JSON.stringify(rule).includes("kube-dns"));
  return { ...policy, spec: { ...policy.spec, egress } };
}

describe("cli/policy/suggest", () => {
  it(`SUGGEST-01: for ${TABLES} random tables exactly the pairs of workloads that were seen are allowed`, () => {
    let allowed = 0;
    fc.assert(
      fc.property(connections, (seen) => {
        const { policies, omitted } = suggest(indexWith(), "shop", seen);
        assert.deepEqual(omitted, []);
        const index = indexWith(...policies);
        const pairs = pairsOf(seen.filter((one) => !isExempt(index, one)));
        for (const { one, pair } of EVERYTHING) {
          const is = isAllowed(index, flowOf(one));
          if (is !== pairs.has(pair) && !isExempt(index, one)) assert.fail(`${pair} is ${is ? "allowed" : "denied"}`);
          if (is) allowed++;
        }
      }),
      { numRuns: TABLES, seed: countedSeed() },
    );
    assert.ok(allowed > 2 * TABLES, String(allowed));
  });

  it("SUGGEST-01: without any one of the suggested peers or ports a seen connection is denied", () => {
    fc.assert(
      fc.property(connections, (seen) => {
        const { policies } = suggest(indexWith(), "shop", seen);
        for (const less of withOneLess(policies.map(withoutDns))) {
          const index = indexWith(...less);
          assert.ok(
            seen.some((one) => (inShopAt(one.source) || inShopAt(one.destination)) && !isAllowed(index, flowOf(one))),
            JSON.stringify(less),
          );
        }
      }),
      { numRuns: Math.ceil(TABLES / 5) },
    );
  });

  const first = (suggestion: Suggestion): SuggestedPolicy => suggestion.policies[0] ?? assert.fail("no policy");
  const web = "10.244.1.10";
  const db = "10.244.1.12";

  it("SUGGEST-03: rules have template labels and port names, and numbers for names that mean another port elsewhere", () => {
    const { policies } = suggest(indexWith(), "shop", [connection(web, db, 80), connection(web, db, 5432)]);
    const ofDb = policies.find(({ metadata }) => metadata.name === "observed-db");
    assert.deepEqual(ofDb?.spec, {
      podSelector: { matchLabels: { app: "db" } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [
        {
          from: [{ podSelector: { matchLabels: { app: "web" } } }],
          ports: [
            { protocol: "TCP", port: "http" },
            { protocol: "TCP", port: 5432 },
          ],
        },
      ],
      egress: [
        {
          to: [
            {
              namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "kube-system" } },
              podSelector: { matchLabels: { "k8s-app": "kube-dns" } },
            },
          ],
          ports: [
            { protocol: "UDP", port: 53 },
            { protocol: "TCP", port: 53 },
          ],
        },
      ],
    });
  });

  it("SUGGEST-03: labels of a release are in no selector, unless only they tell workloads apart or nothing else is left", async () => {
    const table =
      "tcp 6 9 ESTABLISHED src=10.244.2.9 dst=10.244.1.9 sport=5 dport=80 src=10.244.1.9 dst=10.244.2.9 sport=80 dport=5\n";
    const selectorsOf = async (labels: string, more = ""): Promise<readonly string[]> => {
      const owned = { app: "web", labels, metadata: ownedBy("ReplicaSet", "web"), spec: "nodeName: n1" };
      const text =
        pod("shop/web-1", "10.244.1.9", owned) + pod("shop/cli", "10.244.2.9", { spec: "nodeName: n2" }) + more;
      const files = memoryFiles({ "a.yaml": text, "table.txt": table });
      const args = ["policy", "suggest", "-f", "a.yaml", "-n", "shop", "--conntrack", "table.txt"];
      const { out } = await runCli(args, files);
      // The policy of web, and the rule of cli for it.
      return [...out.matchAll(/podSelector:\n +matchLabels:\n((?: +\S+: \S+\n)+)/g)]
        .map(([, found = ""]) =>
          found
            .trim()
            .split(/\s*\n\s*/)
            .join(),
        )
        .filter((found) => !found.includes("app: cli") && !found.includes("kube-dns"));
    };
    const release =
      "app.kubernetes.io/version: 1.16.0, helm.sh/chart: web-0.1.0, rollouts-pod-template-hash: abc, istio.io/rev: a";
    assert.deepEqual(await selectorsOf(release), ["app: web", "app: web"]);
    const canary = pod("shop/web-2", "10.244.1.8", { app: "web", labels: "version: v2" });
    const [own, peer] = await selectorsOf("version: v1, commit: abc", canary);
    assert.deepEqual([own, peer], ["app: web,version: v1", "app: web,version: v1"]);
    const controller =
      "selector: { matchLabels: { tier: front } }, template: { metadata: { labels: { app: web } }, spec: {} }";
    const replicaSet = manifest("ReplicaSet", named("shop/web"), `spec: { ${controller} }`);
    assert.deepEqual(await selectorsOf("tier: front, day: monday", replicaSet), ["tier: front", "tier: front"]);
    const [{ pod: any } = assert.fail()] = indexWith().pods.values();
    const bare = { ...any, labels: { version: "v1" } };
    assert.deepEqual(commonSelector([bare], indexWith()), { matchLabels: { version: "v1" } });
  });

  it("SUGGEST-03: the cluster's DNS is always allowed at the port of its pods, seen or not, and gets no policy", () => {
    for (const [namespace, labels, port, ofService] of [
      ["kube-system", "k8s-app: kube-dns", 53, ""],
      [
        "kube-system",
        "k8s-app: kube-dns",
        1053,
        service("kube-system/kube-dns", "dns", "{ port: 53, targetPort: 1053, protocol: UDP }"),
      ],
      ["openshift-dns", "dns.operator.openshift.io/daemonset-dns: default", 5353, ""],
    ] as const) {
      const spec = "nodeName: n1";
      const dns = objectsIn(
        pod(`${namespace}/coredns`, "10.244.1.53", { labels, spec }) +
          pod(`${namespace}/metrics`, "10.244.1.54", { spec }) +
          ofService,
      );
      const services = storeOf(dns).services;
      const asked = connection("10.244.1.54", "10.244.1.53", port, "UDP");
      for (const [place, seen] of [
        ["shop", [connection(web, db, 80)]],
        [namespace, [connection("10.244.1.54", web, 80), asked]],
      ] as const) {
        const { policies, remarks } = suggest(indexWith(...dns), place, seen, [], services);
        const after = indexWith(...dns, ...policies);
        for (const from of [web, "10.244.1.54"])
          for (const protocol of PROTOCOLS)
            assert.ok(isAllowed(after, flowOf(connection(from, "10.244.1.53", port, protocol))), `${from} ${place}`);
        const isShut = !isAllowed(after, flowOf(connection(place === "shop" ? web : "10.244.1.54", db, 9000)));
        assert.ok(isShut && !policies.some(({ metadata }) => metadata.name === "observed-coredns"));
        assert.ok(remarks.includes(`every workload of ${place} may ask the cluster's DNS, seen or not`));
      }
    }
  });

  it("SUGGEST-03: the cluster's DNS in its nodes' network is allowed at its addresses, and listed as not allowed without one", () => {
    const place = { labels: "k8s-app: kube-dns", spec: "nodeName: n1, hostNetwork: true" };
    const withDns = (ips: string) => {
      const dns = objectsIn(pod("kube-system/coredns", ips, place));
      const suggestion = suggest(indexWith(...dns), "shop", [connection(web, db, 80)]);
      return { ...suggestion, after: indexWith(...dns, ...suggestion.policies) };
    };
    const { after, omitted, remarks } = withDns("192.168.0.7");
    for (const protocol of PROTOCOLS)
      assert.ok(isAllowed(after, flowOf(connection(web, "192.168.0.7", 53, protocol))), protocol);
    assert.deepEqual([omitted, remarks.filter((one) => one.includes("not in the input"))], [[], []]);
    const missing = "kube-system/coredns, the cluster's DNS: its node's address is not in the input";
    assert.deepEqual(withDns("").omitted, [missing]);
  });

  it("SUGGEST-04: an allowed connection gets no rule, and a workload isolated in both directions gets no policy", () => {
    const spec = {
      podSelector: { matchLabels: { app: "db" } },
      policyTypes: ["Ingress", "Egress"],
      ingress: [{}],
      egress: [{}],
    };
    const { policies } = suggest(indexWith(networkPolicy("shop", spec)), "shop", [connection(web, db, 5432)]);
    assert.deepEqual(
      policies.map(({ metadata }) => metadata.name),
      ["observed-api", "observed-web"],
    );
    const taken = networkPolicy("shop", { podSelector: { matchLabels: { app: "none" } } }, "observed-api");
    assert.equal(first(suggest(indexWith(taken), "shop", [])).metadata.name, "observed-api-2");
  });

  it("SUGGEST-07: connections that no rule can express, or that may change, are listed with the reason", () => {
    const ping: Connection = { ...connection(web, db, 80), protocol: "ICMP", port: undefined };
    const many = Array.from({ length: 51 }, (_, i) => connection(web, `203.0.113.${i}`, 443));
    const deny = networkPolicy("shop", { podSelector: { matchLabels: { app: "api" } }, ingress: [] });
    const denied = connection(web, "10.244.2.11", 80);
    const { omitted, remarks } = suggest(indexWith(deny), "shop", [
      ping,
      connection(web, db, 0),
      ...many,
      denied,
      connection("192.0.2.2", web, 80),
    ]);
    assert.deepEqual(omitted, [
      "shop/deployment/web: more than 50 addresses (egress); allow a range of them",
      "2 by ICMP or at port 0: a rule with ports does not allow it",
      "1 are denied by policies that are there",
    ]);
    assert.ok(remarks.some((text) => text.includes("addresses outside of the cluster: such addresses change")));
    assert.ok(remarks.some((text) => text.includes("a node's address: such addresses change")));
    assert.ok(
      remarks.includes("shop/deployment/db: no connection was seen that needs a rule, so nothing is allowed by one"),
    );
  });
});

function inShopAt(value: Address): boolean {
  return ENDS.some((ip) => address(ip) === value && inShop(ip));
}

/** Returns the policies without one peer, or without one port, of one rule; each variant once. */
function withOneLess(policies: readonly SuggestedPolicy[]): readonly (readonly object[])[] {
  return policies.flatMap((policy, p) =>
    (["ingress", "egress"] as const).flatMap((direction) => {
      const rules: readonly Rule[] = policy.spec[direction] ?? [];
      return rules.flatMap((rule, r) =>
        withoutOne(rule).map((less) => {
          const others = [...rules.slice(0, r), ...less, ...rules.slice(r + 1)];
          const spec = { ...policy.spec, [direction]: others };
          return policies.map((one, index) => (index === p ? { ...one, spec } : one));
        }),
      );
    }),
  );
}

type Rule = Readonly<Partial<Record<"from" | "to" | "ports", readonly object[]>>>;

/**
 * Returns a rule without each of its elements. A list's only element removes the rule, since an empty list means
 * everyone or every port.
 */
function withoutOne(rule: Rule): readonly (readonly Rule[])[] {
  return (["from", "to", "ports"] as const).flatMap((field) => {
    const elements = rule[field] ?? [];
    return elements.map((left): readonly Rule[] => {
      const others = elements.filter((one) => one !== left);
      return others.length === 0 ? [] : [{ ...rule, [field]: others }];
    });
  });
}
