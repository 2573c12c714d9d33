import assert from "node:assert/strict";
import { assertFindings, findingsOf, pod, policy } from "../../../support/cli/lint_case.ts";
import { manifest } from "../../../support/cli/objects.ts";

const PODS = pod("web") + pod("db");

const service = (name: string, spec: string, metadata = ""): string =>
  manifest("Service", `name: ${name}, namespace: shop${metadata}`, `spec: { ${spec} }`);

describe("policy lint of rules' peers and ports", () => {
  const web = "podSelector: { matchLabels: { app: web } }";

  it("LINT-10: a Service's port is found where the port of its pods is needed", () => {
    const served = PODS + service("web", "selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }]");
    const found = "NetworkPolicy shop/p: 80/TCP is the port of Service shop/web; its pods listen on 8080 (port: 8080)";
    const egress = (ports: string): string =>
      policy("p", `podSelector: {}, egress: [{ to: [{ ${web} }], ports: [${ports}] }]`);
    assertFindings("service-port", [
      [served + egress("{ port: 80 }"), found],
      [served + policy("p", `${web}, ingress: [{ ports: [{ port: 80 }] }]`), found],
      [
        pod("web", { spec: "containers: [{ ports: [{ name: http, containerPort: 9090 }] }]" }) +
          service("web", "selector: { app: web }, ports: [{ port: 80, targetPort: http }]") +
          egress("{ port: 80 }"),
        found.replaceAll("8080", "9090"),
      ],
      [served + egress("{ port: 8080 }")],
      [served + egress("{ port: 80 }, { port: 8080 }")],
      [served + egress("{ port: 80, protocol: UDP }")],
      [served + egress("{ port: 1, endPort: 100 }")],
      // The pods listen on 80, too.
      [
        served +
          service("plain", "selector: { app: web }, ports: [{ port: 81, targetPort: 80 }]") +
          egress("{ port: 80 }"),
      ],
      [PODS + service("db", "selector: { app: db }, ports: [{ port: 80, targetPort: 8080 }]") + egress("{ port: 80 }")],
    ]);
  });

  it("LINT-10: a port name that no container of the destination pods has is found", () => {
    const named =
      pod("web", {
        spec: "containers: [{ ports: [{ name: http, containerPort: 80 }, { name: dns, containerPort: 53, protocol: UDP }] }]",
      }) + pod("db");
    const says = (port: string, fix: string): string =>
      `NetworkPolicy shop/p: no container of the destination pods has a port ${port}, so it matches nothing (${fix})`;
    assertFindings("unknown-port-name", [
      [
        named + policy("p", `${web}, ingress: [{ ports: [{ port: htpp }] }]`),
        says('"htpp"/TCP', "the names they have: dns, http; or give the number"),
      ],
      [named + policy("p", `${web}, ingress: [{ ports: [{ port: dns }] }]`), says('"dns"/TCP', "protocol: UDP")],
      [
        named +
          policy(
            "p",
            `podSelector: {}, egress: [{ to: [{ podSelector: { matchLabels: { app: db } } }], ports: [{ port: http }] }]`,
          ),
        says('"http"/TCP', "none of their ports has a name: give the number"),
      ],
      [named + policy("p", `${web}, ingress: [{ ports: [{ port: http }] }]`)],
      [named + policy("p", `podSelector: {}, egress: [{ ports: [{ port: http }] }]`)],
      // The port of a native sidecar counts.
      [
        pod("web", {
          spec: "initContainers: [{ restartPolicy: Always, ports: [{ name: proxy, containerPort: 1 }] }]",
        }) + policy("p", `${web}, ingress: [{ ports: [{ port: proxy }] }]`),
      ],
    ]);
  });

  it("LINT-10: an exception outside of its cidr is found", () => {
    const block = (except: string): string =>
      policy("p", `podSelector: {}, ingress: [{ from: [{ ipBlock: { cidr: 10.0.0.0/16, except: [${except}] } }] }]`);
    assertFindings("except-outside-cidr", [
      [
        block("10.1.0.0/24"),
        'NetworkPolicy shop/p: spec.ingress[0].from[0].ipBlock.except[0]: "10.1.0.0/24"; expected a smaller range inside spec.ingress[0].from[0].ipBlock.cidr (omit it: addresses outside of cidr are not allowed anyway)',
      ],
      [block("10.0.1.0/24")],
    ]);
    assert.deepEqual(findingsOf("invalid", block("10.1.0.0/24")), []);
  });

  it("LINT-10: POL-23: two peers that probably should be one with both selectors are found, and readings of peers are shown", () => {
    const from = (peers: string): string => policy("p", `podSelector: {}, ingress: [{ from: [${peers}] }]`);
    const [team, app] = [
      "namespaceSelector: { matchLabels: { team: a } }",
      "podSelector: { matchLabels: { app: web } }",
    ];
    const block = "{ ipBlock: { cidr: 10.0.0.0/8, except: [10.1.0.0/16] } }";
    assertFindings("and-or", [
      [
        from(`{ ${team} }, { ${app} }, ${block}`),
        "NetworkPolicy shop/p: two list items, so either is enough (OR): all pods in namespaces with team=a OR pods with app=web in namespace shop OR addresses in 10.0.0.0/8 without 10.1.0.0/16 (for pods that meet both (AND), drop the dash before the second selector: pods with app=web in namespaces with team=a)",
      ],
      [
        from(`{ ${app} }, { ${team} }`),
        "NetworkPolicy shop/p: two list items, so either is enough (OR): pods with app=web in namespace shop OR all pods in namespaces with team=a (for pods that meet both (AND), drop the dash before the second selector: pods with app=web in namespaces with team=a)",
      ],
      [from(`{ ${team}, ${app} }`)],
      [from(`{ ${team} }, { podSelector: {} }`)],
      [from(`{ ${team} }, ${block}`)],
    ]);
    assertFindings("peers-read-as", [
      [
        from(`{ ${team}, ${app} }`),
        "NetworkPolicy shop/p: read as: pods with app=web in namespaces with team=a (nothing, if that is what is meant)",
      ],
      [
        from(`{ ${team} }, { podSelector: {} }`),
        "NetworkPolicy shop/p: read as: all pods in namespaces with team=a OR all pods in namespace shop (nothing, if that is what is meant)",
      ],
      [from("{ namespaceSelector: {} }")],
      [from(`{ ${team} }, { ${app} }`)],
    ]);
  });

  it("LINT-10: selectors that match pods of the host's network are found", () => {
    const agent = pod("agent", { spec: "hostNetwork: true" });
    const selector = "podSelector: { matchLabels: { app: agent } }";
    assertFindings("host-network", [
      [
        PODS + agent + policy("p", selector),
        "NetworkPolicy shop/p: selects pods of the host's network, on which it has no effect: shop/agent (protect their ports on the node itself, or run them without hostNetwork)",
      ],
      [
        PODS + agent + policy("p", `${web}, ingress: [{ from: [{ ${selector} }] }]`),
        "NetworkPolicy shop/p: the peer is for pods of the host's network, which no selector selects: shop/agent (use an ipBlock with the nodes' addresses)",
      ],
      // A default deny is not for these pods.
      [PODS + agent + policy("p", "podSelector: {}")],
      [pod("agent") + policy("p", selector)],
    ]);
  });

  it("LINT-10: isolated egress without the cluster's DNS is found", () => {
    const egress = (rules: string): string => PODS + policy("p", `${web}, policyTypes: [Egress], egress: [${rules}]`);
    const db = "{ to: [{ podSelector: { matchLabels: { app: db } } }] }";
    const dns =
      "{ to: [{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: kube-system } } }], ports: [{ port: 53, protocol: UDP }] }";
    const says = (port: number): string =>
      `NetworkPolicy shop/p: isolates egress without port 53 to the cluster's DNS: shop/web (add an egress rule to namespaces with kubernetes.io/metadata.name=kube-system and ports ${port}/UDP and ${port}/TCP)`;
    const server =
      pod("coredns", {
        namespace: "kube-system",
        labels: "k8s-app: kube-dns",
        spec: "containers: [{ ports: [{ name: dns, containerPort: 8053, protocol: UDP }] }]",
      }) +
      manifest(
        "Service",
        "name: kube-dns, namespace: kube-system",
        "spec: { selector: { k8s-app: kube-dns }, ports: [{ port: 53, protocol: UDP, targetPort: dns }] }",
      );
    const openshift = pod("dns", {
      namespace: "openshift-dns",
      labels: "dns.operator.openshift.io/daemonset-dns: default",
    });
    assertFindings("dns-forgotten", [
      [egress(db), says(53)],
      [egress(`${db}, ${dns.replace("UDP", "TCP")}`), says(53)],
      // The rule allows the Service's port, but its pods listen on another one.
      [server + egress(`${db}, ${dns}`), says(8053)],
      [egress(`${db}, ${dns}`)],
      [server + egress(`${db}, ${dns.replace("port: 53", "port: 8053")}`)],
      [egress(`${db}, { to: [{ ipBlock: { cidr: 169.254.20.10/32 } }], ports: [{ port: 53, protocol: UDP }] }`)],
      [egress(db) + policy("dns", `podSelector: {}, policyTypes: [Egress], egress: [${dns}]`)],
      // OpenShift's DNS listens on a port of its own.
      [egress(`${db}, { to: [{ namespaceSelector: {} }], ports: [{ port: 5353, protocol: UDP }] }`)],
      [
        server + egress(`${db}, { to: [{ namespaceSelector: {} }], ports: [{ port: 5353, protocol: UDP }] }`),
        says(8053),
      ],
      [openshift + egress(`${db}, ${dns}`), says(5353).replace("kube-system", "openshift-dns")],
      [openshift + egress(`${db}, ${dns.replace("kube-system", "openshift-dns").replace("port: 53", "port: 5353")}`)],
      [egress("")],
      [PODS + policy("p", `${web}, ingress: [{}]`)],
    ]);
  });

  it("LINT-10: ipBlocks that forget one of the pods' families are found", () => {
    const dual = pod("web", { ips: "10.0.0.1 fd00::1" });
    const rule = (...cidrs: readonly string[]): string =>
      policy(
        "p",
        `${web}, ingress: [{ from: [${cidrs.map((cidr) => `{ ipBlock: { cidr: "${cidr}" } }`).join(", ")}] }]`,
      );
    const says =
      "NetworkPolicy shop/p: the pods have IPv4 and IPv6 addresses, and its ipBlocks are all of IPv4 (add the ipBlocks of IPv6)";
    const node = manifest("Node", "name: node-1", 'spec: { podCIDRs: [10.0.0.0/24, "fd00::/64"] }');
    assertFindings("family-forgotten", [
      [dual + rule("192.0.2.0/24"), says],
      [dual + rule("2001:db8::/32"), says.replace("all of IPv4", "all of IPv6").replace("of IPv6)", "of IPv4)")],
      [pod("web") + node + rule("192.0.2.0/24"), says],
      [dual + rule("192.0.2.0/24", "2001:db8::/32")],
      [pod("web", { ips: "10.0.0.1" }) + node + rule("192.0.2.0/24")],
      [
        dual +
          policy("p", `${web}, ingress: [{ from: [{ ipBlock: { cidr: 192.0.2.0/24 } }] }, { ports: [{ port: 80 }] }]`),
      ],
    ]);
  });

  it("LINT-03: rules that other engines enforce differently are found", () => {
    const fix = "(nothing here; test it where another engine is to enforce it)";
    const says = (text: string): string => `NetworkPolicy shop/p: engines differ: ${text} ${fix}`;
    const ingress = (rule: string): string => policy("p", `${web}, ingress: [{ ${rule} }]`);
    const ports = "ports: [{ port: 80 }]";
    assertFindings("engines-differ", [
      [
        pod("web", { ips: "10.0.0.1" }) + ingress(`from: [{ ipBlock: { cidr: 10.0.0.0/8 } }], ${ports}`),
        says("10.0.0.0/8 has addresses of pods or nodes; they match here, in Cilium they do not"),
      ],
      [
        PODS +
          service("web", "type: NodePort, selector: { app: web }, ports: [{ port: 80 }]") +
          ingress(`from: [{ ipBlock: { cidr: 192.0.2.0/24 } }], ${ports}`),
        says(
          "clients of Service shop/web may come with a node's address (externalTrafficPolicy Cluster), which an ipBlock does not have",
        ),
      ],
      [
        ingress(`from: [{ ipBlock: { cidr: "::/0" } }], ${ports}`),
        says("::/0 is every IPv6 address here; in kube-router it is only 2000::/3 and fd00::/8"),
      ],
      [
        policy("p", `${web}, policyTypes: [Egress], egress: [{ ports: [{ port: http }] }]`),
        says(
          "a port's name is looked up in each destination pod here; kube-router looks at pods of its own namespace and then lets everyone be reached at that number",
        ),
      ],
      [
        policy("p", `${web}, policyTypes: [Egress], egress: [{ to: [{ podSelector: {} }], ports: [{ port: http }] }]`),
        says("a port's name nobody has allows nothing here; in kube-router it allows all ports"),
      ],
      [
        ingress("ports: [{ port: 80, protocol: SCTP }]"),
        says("SCTP is policed here; in Cilium it has to be switched on"),
      ],
      [
        ingress("from: [{ podSelector: {} }]"),
        says("a rule without ports allows ICMP here; kube-router lets echo requests through without a rule"),
      ],
      [
        manifest("ClusterNetworkPolicy", "name: c", "spec: { tier: Admin, priority: 1, subject: { namespaces: {} } }"),
        "ClusterNetworkPolicy c: engines differ: Cilium and kube-router know no ClusterNetworkPolicy (keep NetworkPolicies that hold without it where one of them is to enforce it)",
      ],
      [pod("web", { ips: "10.0.0.1" }) + ingress(`from: [{ ipBlock: { cidr: 192.0.2.0/24 } }], ${ports}`)],
      [ingress(`from: [{ podSelector: {} }], ${ports}`)],
      [policy("p", "podSelector: {}")],
    ]);
  });

  it("LINT-10 LB-21 TK-01: risky or ignored fields of Services are found", () => {
    assertFindings("external-ips", [
      [
        service("s", "externalIPs: [192.0.2.1, 192.0.2.2], ports: [{ port: 80 }]"),
        "Service shop/s: takes traffic to 192.0.2.1, 192.0.2.2 on every node (use type LoadBalancer; refuseExternalIPs in policyd's configuration passes them over)",
      ],
      [service("s", "ports: [{ port: 80 }]")],
    ]);
    const balancer = "type: LoadBalancer, ports: [{ port: 80 }], loadBalancerSourceRanges: [192.0.2.0/24]";
    assertFindings("nodes-reachable", [
      [
        service("s", balancer),
        'Service shop/s: everyone who reaches a node gets past loadBalancerSourceRanges by its NodePorts (set allocateLoadBalancerNodePorts: false, or set the annotation drawbridge.dev/enforce-source-ranges: "true")',
      ],
      [
        service("s", `${balancer}, allocateLoadBalancerNodePorts: false, externalIPs: [192.0.2.1]`),
        'Service shop/s: everyone who reaches a node gets past loadBalancerSourceRanges by its externalIPs (do without these, or set the annotation drawbridge.dev/enforce-source-ranges: "true")',
      ],
      [
        service("s", balancer, ', annotations: { drawbridge.dev/enforce-source-ranges: "true" }').replace(
          "spec: {",
          "spec: { externalIPs: [192.0.2.1],",
        ),
      ],
      [service("s", `${balancer}, allocateLoadBalancerNodePorts: false`)],
      [service("s", balancer, ', annotations: { drawbridge.dev/enforce-source-ranges: "true" }')],
      [service("s", "type: LoadBalancer, ports: [{ port: 80, nodePort: 30080 }]")],
    ]);
    assertFindings("topology-keys", [
      [
        service("s", 'topologyKeys: ["*"], ports: [{ port: 80 }]'),
        "Service shop/s: topologyKeys is ignored (use trafficDistribution: PreferSameZone or PreferSameNode)",
      ],
      [service("s", "ports: [{ port: 80 }]")],
    ]);
    const to = (cidr: string): string =>
      service("s", "clusterIP: 10.96.0.10, ports: [{ port: 80 }]") +
      policy("p", `podSelector: {}, egress: [{ to: [{ ipBlock: { cidr: ${cidr} } }] }]`);
    assertFindings("service-address", [
      [
        to("10.96.0.10/32"),
        "NetworkPolicy shop/p: 10.96.0.10/32 has the addresses of Services (shop/s), which no packet has any more when it is judged (select the pods behind the Service by their labels)",
      ],
      [to("0.0.0.0/0")],
      [to("192.0.2.0/24")],
    ]);
  });

  it("LINT-10: POL-50: rules that NetworkPolicy cannot express are found", () => {
    const rules = (rest: string): string => policy("p", `podSelector: {}, ${rest}`);
    const block = (cidr: string, except: string): string => `{ ipBlock: { cidr: ${cidr}, except: [${except}] } }`;
    assertFindings("not-expressible", [
      [
        rules("ingress: [{ action: Deny, from: [{ podSelector: {} }] }]"),
        "NetworkPolicy shop/p: the field action is not a field of NetworkPolicy and is dropped; NetworkPolicy cannot express deny (NetworkPolicy has no deny rules: use a ClusterNetworkPolicy with action Deny)",
      ],
      [
        rules("egress: [{ to: [{ service: { name: web } }] }]"),
        "NetworkPolicy shop/p: the field service is not a field of NetworkPolicy; NetworkPolicy cannot express Services by name (select the pods behind the Service by their labels)",
      ],
      [
        rules("ingress: [{ frm: [{ podSelector: {} }] }]"),
        "NetworkPolicy shop/p: the field frm is not a field of NetworkPolicy and is dropped (delete it, or correct its name)",
      ],
      [
        policy("deny-all", "podSelector: {}, ingress: [{}]"),
        "NetworkPolicy shop/deny-all: is called deny-all and allows all ingress: rules allow, the rule {} everything (delete the rule to close the direction, or rename the policy)",
      ],
      [
        rules("ingress: [{ from: [{ namespaceSelector: { matchLabels: { kubernetes.io/hostname: n1 } } }] }]"),
        "NetworkPolicy shop/p: kubernetes.io/hostname is a label of nodes; NetworkPolicy cannot express nodes by their labels (use an ipBlock with the nodes' addresses, or a ClusterNetworkPolicy with nodes)",
      ],
      [
        rules(`ingress: [{ from: [${block("10.0.0.0/8", "10.1.0.0/16")}, { ipBlock: { cidr: 10.1.0.0/16 } }] }]`),
        "NetworkPolicy shop/p: except 10.1.0.0/16 denies nothing: shop/p ingress[0] allows it (make the same exception there; a deny for all is a ClusterNetworkPolicy's)",
      ],
      [
        manifest("Node", "name: n1", "status: { addresses: [{ type: InternalIP, address: 10.1.0.1 }] }") +
          rules(`ingress: [{ from: [${block("10.0.0.0/8", "10.1.0.0/16")}] }]`),
        "NetworkPolicy shop/p: except 10.1.0.0/16 does not cut off node n1 for the pods on it: NetworkPolicy cannot express that (nothing keeps a pod from itself, or its node from it)",
      ],
      [
        rules(`ingress: [{ from: [${block("0.0.0.0/0", "127.0.0.0/8")}] }]`),
        "NetworkPolicy shop/p: except 127.0.0.0/8 does not cut off a pod's own loopback: NetworkPolicy cannot express that (nothing keeps a pod from itself, or its node from it)",
      ],
      [rules(`ingress: [{ from: [${block("10.0.0.0/8", "10.1.0.0/16")}, ${block("10.0.0.0/7", "10.1.2.0/24")}] }]`)],
      [policy("deny-all", "podSelector: {}")],
      [policy("allow-denyhosts", "podSelector: {}, ingress: [{}]")],
    ]);
  });

  it("LINT-10: a rule that denies domain names is found", () => {
    const egress = (peer: string): string =>
      manifest(
        "ClusterNetworkPolicy",
        "name: c",
        `spec: { tier: Admin, priority: 1, subject: { namespaces: {} }, egress: [{ action: Deny, to: [${peer}] }] }`,
      );
    const [found = "", ...others] = findingsOf("experimental", egress("{ domainNames: [example.org] }"));
    assert.match(
      found,
      /^ClusterNetworkPolicy c: spec\.egress\[0\].*domainNames.*denies everyone.*\(name the addresses/,
    );
    assert.deepEqual(others, []);
    assertFindings("experimental", [
      [egress("{ domainNames: [example.org] }"), found],
      [egress("{ networks: [192.0.2.0/24] }")],
    ]);
  });

  it("LINT-10: a peer for nodes beside pods is found where none of the nodes has the labels", () => {
    const policyTo = (role: string): string =>
      pod("web") +
      manifest(
        "ClusterNetworkPolicy",
        "name: c",
        `spec: { tier: Admin, priority: 1, subject: { namespaces: {} }, egress: [{ action: Accept, to: [{ namespaces: {} }, { nodes: { matchLabels: { role: ${role} } } }] }] }`,
      );
    const node = manifest("Node", "name: n1, labels: { role: egde }", "status: {}");
    assertFindings("peer-selects-nothing", [
      [
        policyTo("edge") + node,
        "ClusterNetworkPolicy c: this peer is nobody (nodes with role=edge) (there is no role=edge; probably role=egde is meant)",
      ],
      [policyTo("egde") + node],
      // Without nodes nothing is known about them.
      [policyTo("edge")],
    ]);
  });
});
