import assert from "node:assert/strict";
import { claimsOf } from "../../../../attachment/host_port_claim.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";

describe("cni/host_ports", () => {
  it("R3: a mapping claims each family of the pod, the family of its hostIP, or one address", () => {
    const claims = (hostIp: string | undefined, families: readonly (4 | 6)[]): readonly unknown[] =>
      claimsOf(
        {
          hostPort: 80,
          containerPort: 8080,
          protocol: "tcp",
          ...(hostIp === undefined ? {} : { hostIp: parseAddress(hostIp) }),
        },
        families,
      ).map(({ family, address }) => [family, address]);
    assert.deepEqual(claims(undefined, [4, 6]), [
      [4, undefined],
      [6, undefined],
    ]);
    assert.deepEqual(claims(undefined, [6]), [[6, undefined]]);
    assert.deepEqual(claims("0.0.0.0", [4, 6]), [[4, undefined]]);
    assert.deepEqual(claims("::", [4, 6]), [[6, undefined]]);
    assert.deepEqual(claims("192.0.2.1", [4, 6]), [[4, parseAddress("192.0.2.1")]]);
    assert.deepEqual(claims("192.0.2.1", [6]), []);
  });
});
