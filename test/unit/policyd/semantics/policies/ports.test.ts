import assert from "node:assert/strict";
import { labelled, networkPolicy } from "../../../../support/policy/manifest.ts";
import { allowed, ask, indexOf } from "../../../../support/policy/question.ts";
import { threeByThree } from "../../../../support/policy/three_by_three.ts";

const TRAFFIC = ["79/TCP", "80/TCP", "81/TCP", "82/TCP", "80/UDP", "81/UDP", "80/SCTP", "ICMP"] as const;

/** The traffic of {@link TRAFFIC} to x/a that these ports allow. */
function passes(...ports: readonly object[]): readonly string[] {
  const spec = { podSelector: labelled({ pod: "a" }), ingress: [{ ports }] };
  const index = indexOf([...threeByThree(), networkPolicy("x", spec)]);
  return TRAFFIC.filter((traffic) => ask(index, ["y/a", "x/a"], traffic).kind === "allowed");
}

function pod(name: string, spec: object, podIPs: readonly object[] = []): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "x", labels: { name } },
    spec,
    status: { podIPs },
  };
}

function serving(name: string, containerPort: number, protocol?: string): object {
  return { name: "server", ports: [{ name, containerPort, ...(protocol === undefined ? {} : { protocol }) }] };
}

describe("policyd/semantics/policies: ports", () => {
  it("POL-30: a port is only of its protocol, TCP by default", () => {
    assert.deepEqual(passes({ port: 80 }), ["80/TCP"]);
    assert.deepEqual(passes({ port: 80, protocol: "UDP" }), ["80/UDP"]);
    assert.deepEqual(passes({ port: 80, protocol: "SCTP" }), ["80/SCTP"]);
  });

  it("POL-31: a port name is resolved at the destination, in its protocol", () => {
    assert.deepEqual(passes({ port: "serve-81-tcp" }), ["81/TCP"]);
    assert.deepEqual(passes({ port: "serve-81-tcp", protocol: "UDP" }), []);
    assert.deepEqual(passes({ port: "serve-81-udp", protocol: "UDP" }), ["81/UDP"]);
    assert.deepEqual(passes({ port: "nobody" }), []);
  });

  it("POL-31: a port name may have another number at each destination", () => {
    const pods = [
      pod("one", { containers: [serving("http", 8080)] }),
      pod("two", { containers: [serving("http", 9090)] }),
    ];
    const client = pod("client", {});
    for (const to of [undefined, [{ podSelector: {} }]]) {
      const spec = {
        podSelector: labelled({ name: "client" }),
        policyTypes: ["Egress"],
        egress: [{ to, ports: [{ port: "http" }] }],
      };
      const index = indexOf([...pods, client, networkPolicy("x", spec)]);
      const flows = [
        ["x/client", "x/one"],
        ["x/client", "x/two"],
        ["x/client", "192.0.2.1"],
      ] as const;
      assert.deepEqual(allowed(index, flows, "8080/TCP"), ["x/client -> x/one"]);
      assert.deepEqual(allowed(index, flows, "9090/TCP"), ["x/client -> x/two"]);
    }
  });

  it("POL-31: a port name that several containers of a pod use stands for each of their ports, in its protocol", () => {
    const containers = [serving("http", 8080), serving("http", 9090), serving("http", 8443, "UDP")];
    const traffic = ["8080/TCP", "9090/TCP", "8443/TCP", "8443/UDP", "80/TCP"];
    const pods = [pod("server", { containers }), pod("client", {})];
    const passing = (spec: object) => {
      const index = indexOf([...pods, networkPolicy("x", spec)]);
      return traffic.filter((one) => ask(index, ["x/client", "x/server"], one).kind === "allowed");
    };
    const ingress = (...ports: readonly object[]) => ({
      podSelector: labelled({ name: "server" }),
      ingress: [{ ports }],
    });
    assert.deepEqual(passing(ingress({ port: "http" })), ["8080/TCP", "9090/TCP"]);
    assert.deepEqual(passing(ingress({ port: "http", protocol: "UDP" })), ["8443/UDP"]);
    const egress = {
      podSelector: labelled({ name: "client" }),
      policyTypes: ["Egress"],
      egress: [{ to: [{ podSelector: {} }], ports: [{ port: "http" }] }],
    };
    assert.deepEqual(passing(egress), ["8080/TCP", "9090/TCP"]);
  });

  it("POL-31: port names of a native sidecar count, those of other init containers do not", () => {
    const init = (restartPolicy: string | undefined) =>
      pod("server", { containers: [], initContainers: [{ ...serving("http", 80), restartPolicy }] });
    const spec = { podSelector: {}, ingress: [{ ports: [{ port: "http" }] }] };
    const kinds = ["Always", undefined].map(
      (restartPolicy) =>
        ask(indexOf([init(restartPolicy), pod("client", {}), networkPolicy("x", spec)]), ["x/client", "x/server"]).kind,
    );
    assert.deepEqual(kinds, ["allowed", "denied"]);
  });

  it("POL-35: towards an ipBlock a port name is resolved at the pod with the address, and other addresses have none", () => {
    const egress = (cidr: string, ...ports: readonly object[]) => ({
      podSelector: labelled({ pod: "b" }),
      policyTypes: ["Egress"],
      egress: [{ to: [{ ipBlock: { cidr } }], ports }],
    });
    const kindTo = (to: string, spec: object, traffic = "80/TCP") =>
      ask(indexOf([...threeByThree(), networkPolicy("x", spec)]), ["x/b", to], traffic).kind;
    const kind = (spec: object) => kindTo("x/a", spec);
    const named = egress("10.244.0.0/16", { port: "serve-80-tcp" });
    assert.equal(kind(named), "allowed");
    assert.deepEqual(
      ["81/TCP", "80/UDP", "ICMP"].map((traffic) => kindTo("x/a", named, traffic)),
      ["denied", "denied", "denied"],
    );
    assert.equal(kind(egress("192.0.2.0/24", { port: "serve-80-tcp" })), "denied", "the pod is not in the block");
    assert.equal(
      kindTo("192.0.2.1", egress("192.0.2.0/24", { port: "serve-80-tcp" })),
      "denied",
      "no pod has the address",
    );
    assert.equal(kindTo("192.0.2.1", egress("192.0.2.0/24", { port: "serve-80-tcp" }, { port: 80 })), "allowed");
    assert.equal(kind(egress("10.244.0.0/16", { port: "serve-80-tcp", protocol: "UDP" })), "denied");
    const ingress = {
      podSelector: labelled({ pod: "a" }),
      ingress: [{ from: [{ ipBlock: { cidr: "10.244.0.0/16" } }], ports: [{ port: "serve-80-tcp" }] }],
    };
    assert.equal(kind(ingress), "allowed", "the selected pod has the name");
  });

  it("POL-32: a protocol without a port is all its ports", () => {
    assert.deepEqual(passes({ protocol: "UDP" }), ["80/UDP", "81/UDP"]);
    assert.deepEqual(passes({}), ["79/TCP", "80/TCP", "81/TCP", "82/TCP"]);
  });

  it("POL-33: a range includes both its ends", () => {
    assert.deepEqual(passes({ port: 80, endPort: 81 }), ["80/TCP", "81/TCP"]);
    assert.deepEqual(passes({ port: 81, endPort: 81, protocol: "UDP" }), ["81/UDP"]);
  });

  it("POL-41: the range 32000 to 32768 includes no port beyond either end", () => {
    const spec = {
      podSelector: { matchLabels: { pod: "a" } },
      policyTypes: ["Egress"],
      egress: [
        { to: [{ ipBlock: { cidr: "10.0.0.0/24" } }], ports: [{ protocol: "TCP", port: 32000, endPort: 32768 }] },
      ],
    };
    const index = indexOf([...threeByThree(), networkPolicy("x", spec)]);
    const ports = [31_999, 32_000, 32_768, 32_769];
    assert.deepEqual(
      ports.filter((port) => ask(index, ["x/a", "10.0.0.1"], `${port}/TCP`).kind === "allowed"),
      [32_000, 32_768],
    );
  });

  it("POL-56: only rules without ports allow ICMP, and ICMP errors belong to the flow they are about", () => {
    const index = (...ingress: readonly object[]) => indexOf([...threeByThree(), networkPolicy("x", { ingress })]);
    const kinds = (...ingress: readonly object[]) =>
      (["ICMP", "ICMP error"] as const).map((traffic) => ask(index(...ingress), ["y/a", "x/a"], traffic).kind);
    assert.deepEqual(kinds({ from: [{ namespaceSelector: {} }] }), ["allowed", "allowed"]);
    assert.deepEqual(kinds({ ports: [{ port: 80 }, { protocol: "UDP" }] }), ["denied", "allowed"]);
    assert.deepEqual(kinds(), ["denied", "allowed"]);
  });

  describe("the worked example of the documentation", () => {
    const db = {
      podSelector: labelled({ role: "db" }),
      policyTypes: ["Ingress", "Egress"],
      ingress: [
        {
          from: [
            { ipBlock: { cidr: "172.17.0.0/16", except: ["172.17.1.0/24"] } },
            { namespaceSelector: labelled({ project: "myproject" }) },
            { podSelector: labelled({ role: "frontend" }) },
          ],
          ports: [{ protocol: "TCP", port: 6379 }],
        },
      ],
      egress: [{ to: [{ ipBlock: { cidr: "10.0.0.0/24" } }], ports: [{ protocol: "TCP", port: 5978 }] }],
    };
    const podOf = (namespace: string, name: string) => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, namespace, labels: { role: name } },
    });
    const index = indexOf([
      { apiVersion: "v1", kind: "Namespace", metadata: { name: "mine", labels: { project: "myproject" } } },
      ...[
        ["default", "db"],
        ["default", "frontend"],
        ["default", "other"],
        ["mine", "client"],
        ["else", "frontend"],
      ].map(([namespace = "", name = ""]) => podOf(namespace, name)),
      networkPolicy("default", db, "test-network-policy"),
    ]);

    it("POL-40: the example allows in only the named peers, only at the one port", () => {
      const senders = [
        "default/frontend",
        "default/other",
        "mine/client",
        "else/frontend",
        "172.17.0.255",
        "172.17.1.0",
        "172.17.1.255",
        "172.17.2.0",
        "172.18.0.0",
      ];
      const flows = senders.map((sender) => [sender, "default/db"] as const);
      assert.deepEqual(
        allowed(index, flows, "6379/TCP").map((flow) => flow.split(" ")[0]),
        ["default/frontend", "mine/client", "172.17.0.255", "172.17.2.0"],
      );
      for (const traffic of ["6378/TCP", "6380/TCP", "6379/UDP"]) assert.deepEqual(allowed(index, flows, traffic), []);
    });

    it("POL-40: the example allows out only to one port of one network, and not to DNS", () => {
      const flows = [
        ["default/db", "10.0.0.0"],
        ["default/db", "10.0.0.255"],
        ["default/db", "10.0.1.0"],
      ] as const;
      assert.deepEqual(allowed(index, flows, "5978/TCP").length, 2);
      assert.deepEqual(allowed(index, flows, "53/UDP"), []);
      assert.deepEqual(
        allowed(index, [["default/frontend", "10.0.1.0"]], "53/UDP").length,
        1,
        "other pods are not restricted",
      );
    });
  });
});
