import assert from "node:assert/strict";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { type EndpointPod, slicesOf } from "./endpoints.ts";

const SERVICE = {
  metadata: { name: "web", namespace: "shop" },
  spec: {
    selector: { app: "web" },
    ports: [
      { name: "http", port: 80, targetPort: 8080 },
      { port: 53, protocol: "UDP" },
    ],
  },
};

function pod(name: string, changes: Partial<EndpointPod> = {}): EndpointPod {
  const addresses = ["10.244.1.2", "fd00:244:1::2"].map((text) => parseAddress(text));
  return {
    name,
    namespace: "shop",
    labels: { app: "web" },
    nodeName: "n1",
    addresses,
    isTerminating: false,
    ...changes,
  };
}

describe("EndpointSlices as their controller writes them", () => {
  it("one for each family, of the pods that the selector means and that have addresses", () => {
    const others = [
      pod("elsewhere", { namespace: "default" }),
      pod("db", { labels: { app: "db" } }),
      pod("pending", { addresses: [] }),
    ];
    const [v4, v6, ...more] = slicesOf(SERVICE, [pod("a"), ...others]);
    assert.deepEqual(more, []);
    assert.deepEqual(v4?.["ports"], [
      { name: "http", protocol: "TCP", port: 8080 },
      { name: "", protocol: "UDP", port: 53 },
    ]);
    const endpoint = (address: string) => ({
      addresses: [address],
      conditions: { ready: true, serving: true, terminating: false },
      nodeName: "n1",
      targetRef: { kind: "Pod", namespace: "shop", name: "a" },
    });
    assert.deepEqual(v4["endpoints"], [endpoint("10.244.1.2")]);
    assert.deepEqual(v6?.["endpoints"], [endpoint("fd00:244:1::2")]);
  });

  it("a pod that ends is not ready and still serves", () => {
    const [v4] = slicesOf(SERVICE, [pod("a", { isTerminating: true })]);
    const conditions = { ready: false, serving: true, terminating: true };
    assert.ok(JSON.stringify(v4?.["endpoints"]).includes(JSON.stringify({ conditions }).slice(1, -1)));
  });

  it("none for a Service without a selector", () => {
    assert.deepEqual(slicesOf({ ...SERVICE, spec: { ports: [] } }, [pod("a")]), []);
    assert.deepEqual(slicesOf({ ...SERVICE, spec: { ports: [], selector: {} } }, [pod("a")]), []);
  });
});
