import assert from "node:assert/strict";
import { MOST_PAIRS, MOST_PROFILE_PAIRS } from "../../../../policyd/policies/policy_size.ts";
import { assertFindings, findingsOf, pod, policy } from "../../../support/cli/lint_case.ts";
import { manifest } from "../../../support/cli/objects.ts";

const PODS = pod("web") + pod("db");
const serving = (ips = ""): string =>
  pod("server", { ips, spec: "containers: [{ ports: [{ name: https, containerPort: 8443 }] }]" });

describe("policy lint of selected pods and allowed connections", () => {
  it("LINT-10: a policy that selects nothing is found", () => {
    assertFindings("selects-nothing", [
      [
        PODS + policy("p", "podSelector: { matchLabels: { app: wbe } }"),
        "NetworkPolicy shop/p: selects nothing (pods with app=wbe in namespace shop) (there is no app=wbe; probably app=web is meant)",
      ],
      [
        PODS + policy("p", "podSelector: { matchLabels: { role: backend-of-all } }"),
        "NetworkPolicy shop/p: selects nothing (pods with role=backend-of-all in namespace shop) (correct the selector, or delete the policy, unless its pods are to come)",
      ],
      [
        PODS +
          manifest(
            "ClusterNetworkPolicy",
            "name: c",
            "spec: { tier: Admin, priority: 1, subject: { namespaces: { matchLabels: { kubernetes.io/metadata.name: shoop } } } }",
          ),
        "ClusterNetworkPolicy c: selects nothing (all pods in namespaces with kubernetes.io/metadata.name=shoop) (there is no kubernetes.io/metadata.name=shoop; probably kubernetes.io/metadata.name=shop is meant)",
      ],
      [PODS + policy("p", "podSelector: { matchLabels: { app: web } }")],
      [PODS + policy("p", "podSelector: {}")],
      // Without pods the rule makes no finding.
      [policy("p", "podSelector: { matchLabels: { app: wbe } }")],
      // This is a finding of another rule.
      [pod("agent", { spec: "hostNetwork: true" }) + policy("p", "podSelector: { matchLabels: { app: agent } }")],
    ]);
  });

  it("LINT-10: a peer that selects nothing beside one that does is found", () => {
    const from = (peers: string): string => PODS + policy("p", `podSelector: {}, ingress: [{ from: [${peers}] }]`);
    const web = "{ podSelector: { matchLabels: { app: web } } }";
    const nobody = "{ podSelector: { matchLabels: { app: wbe } } }";
    assertFindings("peer-selects-nothing", [
      [
        from(`${web}, ${nobody}`),
        "NetworkPolicy shop/p: this peer is nobody (pods with app=wbe in namespace shop) (there is no app=wbe; probably app=web is meant)",
      ],
      [from(web)],
      [from(nobody)],
      [from(`${web}, { namespaceSelector: { matchLabels: { team: far-away } } }`)],
    ]);
    assertFindings("unknown-namespace", [
      [
        from(`${web}, { namespaceSelector: { matchLabels: { team: far-away } } }`),
        "NetworkPolicy shop/p: no pods of a namespace with team=far-away are among the files (give its files, too, with -f, or the Namespace object of shop)",
      ],
      [
        from("{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: far-away } } }"),
        "NetworkPolicy shop/p: no pods of a namespace with kubernetes.io/metadata.name=far-away are among the files (give its files, too, with -f)",
      ],
      [
        pod("node-exporter", { namespace: "monitoring" }) +
          from("{ namespaceSelector: { matchLabels: { name: monitoring } } }"),
        "NetworkPolicy shop/p: no pods of a namespace with name=monitoring are among the files (monitoring is without its Namespace object, so only its name is known: give the object, too, or write kubernetes.io/metadata.name=monitoring)",
      ],
      [from(`${web}, ${nobody}`)],
    ]);
  });

  it("LINT-10: a policy that is too large for nodes, by itself or with the pods' other policies, is found", () => {
    const blocks = (count: number): string =>
      Array.from({ length: count }, (_, i) => `{ ipBlock: { cidr: 10.${i >> 8}.${i & 255}.0/24 } }`).join(", ");
    const large = (name: string, count: number): string =>
      policy(name, `podSelector: { matchLabels: { app: web } }, ingress: [{ from: [${blocks(count)}] }]`);
    const more = policy("d", "podSelector: {}, ingress: [{}]");
    assertFindings("too-large", [
      [
        PODS + large("a", MOST_PAIRS + 1),
        `NetworkPolicy shop/a: ingress: ${MOST_PAIRS + 1} pairs of a peer or an exception and a port ` +
          `(16 for a range or a name of ports and for a list of domain names); expected at most ${MOST_PAIRS}: ` +
          "the pods are isolated, and the policy allows them nothing (split it into several)",
      ],
      [
        PODS + large("a", MOST_PAIRS) + large("b", MOST_PROFILE_PAIRS - MOST_PAIRS) + more,
        `NetworkPolicy shop/d: ingress: comes after policies with which it would have more than ${MOST_PROFILE_PAIRS} pairs of a peer ` +
          "or an exception and a port: it allows nothing to shop/web (have fewer or smaller policies select these pods)",
      ],
      [PODS + large("a", MOST_PAIRS) + large("b", MOST_PROFILE_PAIRS - MOST_PAIRS - 1) + more],
    ]);
  });

  it("LINT-10: a namespaceSelector with a typo is found with the nearest existing label", () => {
    const namespaces = manifest("Namespace", "name: monitoring, labels: { team: observers }");
    const from = (labels: string): string =>
      PODS +
      namespaces +
      policy("p", `podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchLabels: { ${labels} } } }] }]`);
    const fromOneOf = (values: string): string =>
      PODS +
      namespaces +
      policy(
        "p",
        `podSelector: {}, ingress: [{ from: [{ namespaceSelector: { matchExpressions: [{ key: team, operator: In, values: [${values}] }] } }] }]`,
      );
    assertFindings("namespace-typo", [
      [
        from("team: observer"),
        "NetworkPolicy shop/p: no namespace has the label team=observer (probably team=observers is meant)",
      ],
      [
        from("kubernetes.io/metadata.name: monitorin"),
        "NetworkPolicy shop/p: no namespace has the label kubernetes.io/metadata.name=monitorin (probably kubernetes.io/metadata.name=monitoring is meant)",
      ],
      [
        fromOneOf("shop, observer"),
        "NetworkPolicy shop/p: no namespace has the label team=observer (probably team=observers is meant)",
      ],
      // Only Kubernetes' own label has the name.
      [
        from("name: monitoring"),
        "NetworkPolicy shop/p: no namespace has the label name=monitoring (probably kubernetes.io/metadata.name=monitoring is meant)",
      ],
      [from("tier: monitoring")],
      [fromOneOf("observers, observer")],
      [from("team: observers")],
      [from("stage: production")],
    ]);
  });

  it("LINT-10 POL-35: a rule that allows nothing, and a direction that is probably closed by mistake, are found", () => {
    const rules = (rest: string): string => PODS + policy("p", `podSelector: { matchLabels: { app: web } }, ${rest}`);
    assertFindings("allows-nothing", [
      [
        rules("ingress: [{ from: [{ podSelector: { matchLabels: { app: wbe } } }] }]"),
        "NetworkPolicy shop/p: the rule is for nobody: pods with app=wbe in namespace shop (there is no app=wbe; probably app=web is meant)",
      ],
      [
        rules(
          "policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 192.0.2.0/24 } }], ports: [{ port: https }] }]",
        ),
        'NetworkPolicy shop/p: the rule allows nothing: no pod in its ipBlocks has a port called "https", and only pods have such names (give the ports as numbers)',
      ],
      // A pod in the block, or one that may get an address there, has a port with this name.
      [
        serving("192.0.2.7") +
          policy(
            "p",
            "policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 192.0.2.0/24 } }], ports: [{ port: https }] }]",
          ),
      ],
      [
        serving() +
          policy(
            "p",
            "policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 192.0.2.0/24 } }], ports: [{ port: https }] }]",
          ),
      ],
      [
        serving("192.0.3.7") +
          policy(
            "p",
            "policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 192.0.2.0/24 } }], ports: [{ port: https }] }]",
          ),
        'NetworkPolicy shop/p: the rule allows nothing: no pod in its ipBlocks has a port called "https", and only pods have such names (give the ports as numbers)',
      ],
      [
        rules("policyTypes: [Ingress, Egress], ingress: [{}]"),
        "NetworkPolicy shop/p: policyTypes has Egress, and no policy of these pods has egress rules: they allow no egress at all (omit Egress from policyTypes, or add egress rules, such as one for DNS)",
      ],
      [rules("ingress: [{ from: [{ podSelector: { matchLabels: { app: db } } }] }]")],
      [rules("policyTypes: [Egress], egress: [{ to: [{ ipBlock: { cidr: 192.0.2.0/24 } }], ports: [{ port: 443 }] }]")],
      [
        rules("policyTypes: [Ingress, Egress], ingress: [{}]") +
          policy("q", "podSelector: {}, policyTypes: [Egress], egress: [{}]"),
      ],
      // A default deny is intended.
      [rules("policyTypes: [Ingress, Egress]")],
    ]);
  });

  it("LINT-10: rules of a direction that policyTypes omits are found", () => {
    assertFindings("rules-ignored", [
      [
        policy("p", "podSelector: {}, policyTypes: [Egress], ingress: [{}]"),
        "NetworkPolicy shop/p: the ingress rules are ignored: policyTypes has no Ingress (add Ingress to policyTypes, or delete the rules)",
      ],
      [
        policy("p", "podSelector: {}, egress: []"),
        "NetworkPolicy shop/p: egress: [] without policyTypes isolates nothing: all egress stays allowed (write policyTypes: [Ingress, Egress] to close egress)",
      ],
      [policy("p", "podSelector: {}, policyTypes: [Egress], egress: []")],
      [policy("p", "podSelector: {}, egress: [{}]")],
      [policy("p", "podSelector: {}")],
    ]);
  });

  it("LINT-10: a rule that another one covers completely is found", () => {
    const web = "from: [{ podSelector: { matchLabels: { app: web } } }]";
    const both = (first: string, second: string): string =>
      policy("p", `podSelector: {}, ingress: [${first}, ${second}]`);
    const shadowedBy = (object: string, where: string): string =>
      `NetworkPolicy shop/${object}: shadowed: ${where} allows all that this rule allows (delete this rule, or narrow the other)`;
    assertFindings("shadowed", [
      [both("{}", `{ ${web} }`), shadowedBy("p", "ingress[0] (a.yaml:1)")],
      // The narrow rule comes first and is the one reported.
      [
        both(`{ ${web}, ports: [{ port: 80 }] }`, `{ ${web}, ports: [{ port: 1, endPort: 100 }] }`),
        shadowedBy("p", "ingress[1] (a.yaml:1)"),
      ],
      // Of two equal rules the second is reported.
      [both(`{ ${web} }`, `{ ${web} }`), shadowedBy("p", "ingress[0] (a.yaml:1)")],
      [
        policy("p", `podSelector: { matchLabels: { app: db } }, ingress: [{ ${web} }]`) +
          policy("q", `podSelector: {}, ingress: [{ ${web} }]`),
        shadowedBy("p", "shop/q ingress[0] (a.yaml:3)"),
      ],
      [
        both(
          "{ from: [{ ipBlock: { cidr: 10.0.0.0/8, except: [10.2.0.0/16] } }] }",
          "{ from: [{ ipBlock: { cidr: 10.1.0.0/16 } }] }",
        ),
        shadowedBy("p", "ingress[0] (a.yaml:1)"),
      ],
      [
        both(
          "{ from: [{ namespaceSelector: {}, podSelector: { matchExpressions: [{ key: app, operator: Exists }] } }] }",
          `{ ${web} }`,
        ),
        shadowedBy("p", "ingress[0] (a.yaml:1)"),
      ],
      [
        both(
          "{ from: [{ ipBlock: { cidr: 10.0.0.0/8, except: [10.1.2.0/24] } }] }",
          "{ from: [{ ipBlock: { cidr: 10.1.0.0/16 } }] }",
        ),
      ],
      [both("{ ports: [{ port: 80, protocol: UDP }] }", "{ ports: [{ port: 80 }] }")],
      [both(`{ ${web} }`, "{ from: [{ podSelector: {} }], ports: [{ port: 80 }] }")],
      [
        policy("p", `podSelector: { matchLabels: { app: db } }, ingress: [{}]`) +
          policy("q", `podSelector: {}, ingress: [{ ${web} }]`),
      ],
      [policy("p", `podSelector: {}, ingress: [{}], egress: [{ to: [{ podSelector: {} }] }]`)],
    ]);
  });

  it("LINT-10: a ClusterNetworkPolicy rule for which earlier rules leave no connections is found", () => {
    const rule = (action: string, selector: string, ports = ""): string =>
      `{ action: ${action}, from: [{ namespaces: ${selector} }]${ports} }`;
    const cluster = (name: string, priority: number, rules: string, subject = "{}"): string =>
      manifest(
        "ClusterNetworkPolicy",
        `name: ${name}`,
        `spec: { tier: Admin, priority: ${priority}, subject: { namespaces: ${subject} }, ingress: [${rules}] }`,
      );
    const team = "{ matchLabels: { team: a } }";
    const never = (where: string): string =>
      `ClusterNetworkPolicy c: shadowed: ${where} comes first, and this rule is never asked (delete this rule, or narrow the other)`;
    assertFindings("shadowed", [
      [cluster("c", 5, `${rule("Deny", "{}")}, ${rule("Accept", team)}`), never("ingress[0] (a.yaml:1)")],
      [
        cluster("b", 4, rule("Deny", "{}")) + cluster("c", 5, rule("Accept", team), team),
        never("b ingress[0] (a.yaml:1)"),
      ],
      [cluster("c", 5, `${rule("Accept", team)}, ${rule("Deny", "{}")}`)],
      [cluster("b", 4, rule("Deny", "{}"), team) + cluster("c", 5, rule("Accept", team))],
      [
        cluster(
          "c",
          5,
          `${rule("Deny", "{}", ", protocols: [{ tcp: { destinationPort: { number: 80 } } }]")}, ${rule("Accept", team)}`,
        ),
      ],
    ]);
  });

  it("LINT-10: a policy whose removal changes no connection is found", () => {
    const redundant = (name: string): string =>
      `NetworkPolicy shop/${name}: redundant: without it every connection is the same (delete it, unless it is for pods to come)`;
    const fromWeb = "ingress: [{ from: [{ podSelector: { matchLabels: { app: web } } }] }]";
    const db = "podSelector: { matchLabels: { app: db } }";
    assertFindings("redundant", [
      [PODS + policy("all", `podSelector: {}, ${fromWeb}`) + policy("db", `${db}, ${fromWeb}`), redundant("db")],
      // The policy that is examined before it is needed, and stays.
      [PODS + policy("a", `${db}, ${fromWeb}`) + policy("b", `podSelector: {}, ${fromWeb}`), redundant("a")],
      // One of two equal policies must stay.
      [PODS + policy("one", `${db}, ${fromWeb}`) + policy("two", `${db}, ${fromWeb}`), redundant("two")],
      [
        PODS + policy("all", "podSelector: {}") + policy("open", `${db}, policyTypes: [Egress], egress: [{}]`),
        redundant("open"),
      ],
      [PODS + policy("db", `${db}, ${fromWeb}`)],
      // The removal would matter only to addresses outside.
      [
        PODS +
          policy("all", `podSelector: {}, ${fromWeb}`) +
          policy("db", `${db}, ingress: [{ from: [{ ipBlock: { cidr: 192.0.2.0/24 } }] }]`),
      ],
      // The removal would matter only to one port.
      [
        PODS +
          policy("all", `podSelector: {}`) +
          policy("db", `${db}, ingress: [{ from: [{ podSelector: {} }], ports: [{ port: 5432 }] }]`),
      ],
      // The removal would matter only to the pod itself, through its Service (CNP-08).
      [
        PODS +
          manifest(
            "ClusterNetworkPolicy",
            "name: c",
            `spec: { tier: Admin, priority: 1, subject: { pods: { ${db} } }, ingress: [{ action: Deny, from: [{ pods: { ${db} } }] }] }`,
          ),
      ],
      // The removal would matter only to the pod's node, which is unknown.
      [
        manifest("Node", "name: n1", "status: { addresses: [{ type: InternalIP, address: 192.0.2.1 }] }") +
          manifest("Pod", "name: db-0, namespace: shop, labels: { app: db }", "status: { phase: Running }") +
          policy("deny", `${db}, policyTypes: [Egress]`) +
          manifest(
            "ClusterNetworkPolicy",
            "name: c",
            `spec: { tier: Admin, priority: 1, subject: { pods: { ${db} } }, egress: [{ action: Deny, to: [{ nodes: {} }] }] }`,
          ),
      ],
      // A default deny also covers future pods.
      [
        PODS +
          policy("deny", "podSelector: {}") +
          policy("db", `${db}, ${fromWeb}`) +
          policy("web", "podSelector: { matchLabels: { app: web } }, ingress: [{ ports: [{ port: 80 }] }]"),
      ],
    ]);
  });

  it("LINT-10: policies in shadow, and shadow annotations without effect, are found", () => {
    const annotated = (value: string): string =>
      PODS +
      manifest(
        "NetworkPolicy",
        `name: p, namespace: shop, annotations: { drawbridge.dev/shadow: "${value}" }`,
        "spec: { podSelector: { matchLabels: { app: web } } }",
      );
    assertFindings("in-shadow", [
      [
        annotated("true"),
        "NetworkPolicy shop/p: in shadow: it isolates nobody (delete the annotation to have it enforced)",
      ],
      [annotated("false")],
      [annotated("yes")],
    ]);
    const cluster = manifest(
      "ClusterNetworkPolicy",
      'name: c, annotations: { drawbridge.dev/shadow: "true" }',
      "spec: { tier: Admin, priority: 7, subject: { namespaces: {} } }",
    );
    assertFindings("shadow-annotation", [
      [
        annotated("yes"),
        'NetworkPolicy shop/p: drawbridge.dev/shadow: "yes" is not "true": the policy is in force (write "true", or delete the annotation)',
      ],
      [
        PODS + cluster,
        "ClusterNetworkPolicy c: drawbridge.dev/shadow is for NetworkPolicies: a ClusterNetworkPolicy is in force all the same (delete the annotation)",
      ],
      [annotated("true")],
      [annotated("false")],
    ]);
  });

  it("LINT-10: a policy in shadow makes no enforced policy shadowed or redundant, and is not redundant itself", () => {
    const rule = "podSelector: { matchLabels: { app: web } }, ingress: [{ ports: [{ port: 80 }] }]";
    const shadow = manifest(
      "NetworkPolicy",
      'name: a, namespace: shop, annotations: { drawbridge.dev/shadow: "true" }',
      `spec: { ${rule} }`,
    );
    const files = PODS + shadow + policy("b", rule);
    assert.deepEqual(findingsOf("redundant", files), []);
    assert.deepEqual(findingsOf("shadowed", files), [
      "NetworkPolicy shop/a: shadowed: shop/b ingress[0] (a.yaml:7) allows all that this rule allows (delete this rule, or narrow the other)",
    ]);
  });

  it("LINT-10: ClusterNetworkPolicies of one priority for the same pods are found", () => {
    const cluster = (name: string, spec: string): string =>
      manifest("ClusterNetworkPolicy", `name: ${name}`, `spec: { ${spec}, subject: { namespaces: {} } }`);
    assertFindings("undefined-order", [
      [
        PODS + cluster("a", "tier: Admin, priority: 7") + cluster("b", "tier: Admin, priority: 7"),
        "ClusterNetworkPolicy b: has tier Admin and priority 7 like a, and both are for the same pods (give each a priority of its own)",
      ],
      [PODS + cluster("a", "tier: Admin, priority: 7") + cluster("b", "tier: Baseline, priority: 7")],
      [PODS + cluster("a", "tier: Admin, priority: 7") + cluster("b", "tier: Admin, priority: 8")],
    ]);
  });
});
