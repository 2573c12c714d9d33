import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { isNamed } from "../../../../../objects/semantics/policies/match.ts";
import type { ResolvedEnd } from "../../../../../objects/semantics/policies/party.ts";
import { objectOf } from "../../../../support/policy/live/objects.ts";

describe("objects/semantics/policies: named ports", () => {
  it("POL-31 SHARE-08: thousands of names are looked up among a pod's 512 ports, which are read once", () => {
    let read = 0;
    const ports = Array.from({ length: 512 }, (_, i) => ({
      protocol: "TCP" as const,
      port: 1000 + i,
      get name() {
        read++;
        return `p${i}`;
      },
    }));
    const pod = { ...objectOf("Pod", { metadata: { name: "a", namespace: "x" }, spec: {} }), ports };
    const party = { type: "outside", address: parseAddress("192.0.2.1") } as const;
    const end: ResolvedEnd = { party, address: undefined, family: undefined, subject: undefined, pod, others: [] };
    const asked = Array.from({ length: 8192 }, (_, i) => ({ name: `p${i}`, protocol: "TCP" as const, port: 1000 + i }));
    assert.equal(asked.filter((one) => isNamed(end, one)).length, 512);
    assert.equal(isNamed(end, { name: "p1", protocol: "TCP", port: 1000 }), false);
    assert.equal(isNamed(end, { name: "p1", protocol: "UDP", port: 1001 }), false);
    assert.equal(
      isNamed({ ...end, others: [{ ...end, pod: undefined }] }, { name: "p0", protocol: "TCP", port: 1000 }),
      false,
    );
    assert.equal(read, 512);
  });
});
