import assert from "node:assert/strict";
import fc from "fast-check";
import { claimsOf } from "../../../../attachment/host_port_claim.ts";
import { findConflict, hostPortElements } from "../../../../cni/node_rules/host_ports.ts";
import { flowsOf, flowsTo } from "../../../../cni/node_rules/stale_flows.ts";
import type { PortMapping } from "../../../../attachment/attachment.ts";
import { type Address, familyOf, parseAddress } from "../../../../kernel/ip/address.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import type { Element } from "../../../../kernel/nftables/model/object.ts";

const pod = ["10.244.1.7", "fd00:244:1::7", "10.244.1.8"].map((text) => parseAddress(text));
const nodeAddresses = ["192.0.2.1", "127.0.0.1", "127.0.0.2", "2001:db8::1", "::1"].map((text) => parseAddress(text));

const mapping = fc.record({
  hostPort: fc.constantFrom(80, 81),
  containerPort: fc.constant(8080),
  protocol: fc.constantFrom("tcp", "udp"),
  hostIp: fc.constantFrom(undefined, ...["0.0.0.0", "::"].map((text) => parseAddress(text)), ...nodeAddresses),
});

function withoutUndefined({
  hostIp,
  ...rest
}: Omit<PortMapping, "hostIp"> & { readonly hostIp: Address | undefined }): PortMapping {
  return hostIp === undefined ? rest : { ...rest, hostIp };
}

/**
 * Returns where the rules send a packet to an address of the node: by the map of that address first, then by that of
 * all addresses.
 */
function leadsTo(
  present: ReadonlyMap<string, readonly Element[]>,
  to: Address,
  port: readonly [string, number],
): unknown {
  const family = familyOf(to);
  const found = (set: string, key: Element["key"]): Element | undefined =>
    present.get(set)?.find((element) => keyText(element.key) === keyText(key));
  const { data } = found(`address_ports${family}`, [...port, to]) ?? found(`ports${family}`, port) ?? {};
  return Array.isArray(data) ? data[0] : undefined;
}

describe("cni/host_ports", () => {
  it("R6: a pod whose mapping is accepted gets every packet that the mapping means, and no other pod gets any of them", () => {
    fc.assert(
      fc.property(fc.array(mapping.map(withoutUndefined), { maxLength: 8 }), (wishes) => {
        const present = new Map<string, Element[]>();
        const accepted: (readonly [PortMapping, readonly Address[]])[] = [];
        for (const [index, wish] of wishes.entries()) {
          const addresses = [`10.244.1.${index + 2}`, `fd00:244:1::${index + 2}`].map((text) => parseAddress(text));
          const publication = { mappings: [wish], addresses, serviceCidrs: [], comment: `dbv${index}` };
          if (findConflict(publication, present) !== undefined) continue;
          accepted.push([wish, addresses]);
          for (const { set, elements } of hostPortElements(publication)) {
            present.set(set.name, [...(present.get(set.name) ?? []), ...elements]);
          }
        }
        assert.ok(wishes.length === 0 || accepted.length > 0);
        for (const [{ hostIp, protocol, hostPort }, addresses] of accepted) {
          for (const to of nodeAddresses) {
            const isMeant =
              hostIp === undefined || hostIp === to || (BigInt(hostIp) === 0n && familyOf(hostIp) === familyOf(to));
            const target = addresses.find((own) => familyOf(own) === familyOf(to));
            assert.equal(leadsTo(present, to, [protocol, hostPort]) === target, isMeant);
          }
        }
      }),
    );
  });

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
