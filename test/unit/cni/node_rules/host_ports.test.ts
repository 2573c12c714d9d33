import assert from "node:assert/strict";
import { claimsOf } from "../../../../attachment/host_port_claim.ts";
import { flowsOf, flowsTo } from "../../../../cni/node_rules/stale_flows.ts";
import type { PortMapping } from "../../../../attachment/attachment.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";

const pod = ["10.244.1.7", "fd00:244:1::7", "10.244.1.8"].map((text) => parseAddress(text));
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

  it("R2: only UDP flows are deleted: those of the host port, and later those to the pod", () => {
    const udp: PortMapping = { hostPort: 53, containerPort: 5353, protocol: "udp" };
    const fixed: PortMapping = { ...udp, hostIp: parseAddress("192.0.2.1") };
    const tcp: PortMapping = { ...udp, protocol: "tcp" };
    const [own4, own6] = pod;
    assert.ok(own4 !== undefined && own6 !== undefined);
    assert.deepEqual(flowsOf([udp, fixed, tcp], [own4, own6]), [
      { family: 4, protocol: "udp", original: { destinationPort: 53 } },
      { family: 6, protocol: "udp", original: { destinationPort: 53 } },
      { family: 4, protocol: "udp", original: { destinationPort: 53, destination: parseAddress("192.0.2.1") } },
    ]);
    assert.deepEqual(flowsTo([tcp, udp], [own4]), [
      { family: 4, protocol: "udp", original: { destinationPort: 53 }, reply: { source: own4, sourcePort: 5353 } },
    ]);
    assert.deepEqual([flowsOf([tcp], pod), flowsTo([tcp], pod)], [[], []]);
  });
});
