import assert from "node:assert/strict";
import { clusterNetworkPolicy, labelled, networkPolicy } from "../../../../support/policy/manifest.ts";
import { ask, indexOf } from "../../../../support/policy/question.ts";
import { threeByThree } from "../../../../support/policy/three_by_three.ts";

/** A pod of which several containers use one name for their ports. */
const SERVER = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "server", namespace: "x", labels: { name: "server" } },
  spec: {
    containers: [
      { name: "http", containerPort: 8080 },
      { name: "http", containerPort: 9090 },
      { name: "http", containerPort: 8443, protocol: "UDP" },
    ].map((port, index) => ({ name: `server-${index}`, ports: [port] })),
  },
};
const TO_SERVER = ["8080/TCP", "9090/TCP", "8443/TCP", "8443/UDP", "ICMP"];

/** Examples of flows that random clusters rarely have. */
describe("objects/semantics/policies: rare flows", () => {
  it("POL-31: a port name that several containers of a pod use stands for each of their ports, in its protocol", () => {
    const passing = (port: object) => {
      const spec = { podSelector: labelled({ name: "server" }), ingress: [{ ports: [port] }] };
      const index = indexOf([...threeByThree(), SERVER, networkPolicy("x", spec)]);
      return TO_SERVER.filter((traffic) => ask(index, ["y/a", "x/server"], traffic).kind === "allowed");
    };
    assert.deepEqual(passing({ port: "http" }), ["8080/TCP", "9090/TCP"]);
    assert.deepEqual(passing({ port: "http", protocol: "UDP" }), ["8443/UDP"]);
  });

  it("CNP-05: a port name in a ClusterNetworkPolicy stands for each port of a pod with the name, in any protocol", () => {
    const deny = clusterNetworkPolicy("deny", {
      tier: "Admin",
      priority: 0,
      subject: { namespaces: {} },
      ingress: [{ action: "Deny", from: [{ namespaces: {} }], protocols: [{ destinationNamedPort: "http" }] }],
    });
    const index = indexOf([...threeByThree(), SERVER, deny]);
    assert.deepEqual(
      TO_SERVER.filter((traffic) => ask(index, ["y/a", "x/server"], traffic).kind === "denied"),
      ["8080/TCP", "9090/TCP", "8443/UDP"],
    );
  });
});
