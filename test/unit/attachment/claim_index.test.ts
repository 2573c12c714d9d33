import assert from "node:assert/strict";
import fc from "fast-check";
import { type HostPortClaim, claimsOf } from "../../../attachment/host_port_claim.ts";
import { type Conflict, findConflict, hostPortElements } from "../../../cni/node_rules/host_ports.ts";
import type { PortMapping } from "../../../attachment/attachment.ts";
import { type Address, type Family, familyOf, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Element } from "../../../kernel/nftables/model/object.ts";
import { assertRefusal, configurationOf, networkInput } from "../../support/cni/cni.ts";

const hostIps = ["0.0.0.0", "::", "192.0.2.1", "127.0.0.1", "127.0.0.2", "2001:db8::1", "::1"].map((text) =>
  parseAddress(text),
);

const families = fc.constantFrom<readonly Family[]>([4], [6], [4, 6], [6, 4]);

/** Generates mappings from few ports, protocols and addresses, so that they overlap often. */
const mapping = fc
  .record({
    hostPort: fc.integer({ min: 80, max: 82 }),
    protocol: fc.constantFrom("tcp" as const, "udp" as const, "sctp" as const),
    hostIp: fc.constantFrom(undefined, ...hostIps),
  })
  .map(({ hostIp, ...rest }): PortMapping => ({
    ...rest,
    containerPort: 8080,
    ...(hostIp === undefined ? {} : { hostIp }),
  }));

/** Generates mappings whose hostIP is of one of the families; an earlier check refuses the others. */
const wanted = families.chain((own) =>
  fc
    .array(
      mapping.filter(({ hostIp }) => hostIp === undefined || own.includes(familyOf(hostIp))),
      { maxLength: 6 },
    )
    .map((mappings) => ({ mappings, families: own })),
);

/** Finds the first claim that an element already holds, by comparing each claim with all elements. */
function conflictAmong(
  claims: readonly HostPortClaim[],
  present: ReadonlyMap<string, readonly Element[]>,
): Conflict | undefined {
  for (const claim of claims) {
    const { protocol, hostPort } = claim.mapping;
    const elements = [`ports${claim.family}`, `address_ports${claim.family}`].flatMap(
      (name) => present.get(name) ?? [],
    );
    const holder = elements.find(
      ({ key: [theirProtocol, theirPort, address] }) =>
        theirProtocol === protocol &&
        theirPort === hostPort &&
        (claim.address === undefined || address === undefined || address === claim.address),
    );
    if (holder !== undefined) return { claim, holder: holder.comment };
  }
  return undefined;
}

function podAddresses(own: readonly Family[], index: number): readonly Address[] {
  return own.map((family) => parseAddress(family === 4 ? `10.244.1.${index + 2}` : `fd00:244:1::${index + 2}`));
}

describe("cni/claim_index", () => {
  it("R6: the same holder of a port is named as when each claim is compared with each element", () => {
    fc.assert(
      fc.property(fc.array(wanted, { maxLength: 5 }), wanted, (others, { mappings, families: own }) => {
        const present = new Map<string, Element[]>();
        for (const [index, { mappings: theirs, families: their }] of others.entries()) {
          const addresses = podAddresses(their, index);
          const publication = { mappings: theirs, addresses, serviceCidrs: [], comment: `dbv${index}` };
          for (const { set, elements } of hostPortElements(publication)) {
            present.set(set.name, [...(present.get(set.name) ?? []), ...elements]);
          }
        }
        const addresses = podAddresses(own, others.length);
        const ordered = FAMILIES.filter((family) => own.includes(family));
        const claims = mappings.flatMap((one) => claimsOf(one, ordered));
        assert.deepEqual(findConflict({ mappings, addresses }, present), conflictAmong(claims, present));
      }),
      { numRuns: 1000 },
    );
  });

  it("R6: more than 1,024 mappings of a pod are refused before any are compared", () => {
    const ports = (count: number): Record<string, unknown> =>
      networkInput({
        runtimeConfig: {
          portMappings: Array.from({ length: count }, (_, index) => ({
            hostPort: 1 + index,
            containerPort: 80,
            protocol: count > 1024 ? "none" : "tcp",
          })),
        },
      });
    assert.equal(configurationOf(ports(1024)).portMappings.length, 1024);
    const says = ["runtimeConfig.portMappings.length: 60000; expected at most 1024 mappings"];
    assertRefusal(() => configurationOf(ports(60_000)), { code: 7, says });
  });
});
