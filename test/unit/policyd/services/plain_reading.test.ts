import assert from "node:assert/strict";
import process from "node:process";
import * as fc from "fast-check";
import { familyOf } from "../../../../kernel/ip/address.ts";
import type { Service } from "../../../../policyd/objects/model.ts";
import type { SocketAddress } from "../../../../policyd/semantics/services/packet.ts";
import { evaluate } from "../../../../policyd/semantics/services/evaluate.ts";
import type { ServiceWorld } from "../../../../policyd/semantics/services/world.ts";
import { allowedOutcomes } from "../../../support/evaluate/agreement.ts";
import { Statistics } from "../../../support/evaluate/features.ts";
import { plainReading } from "../../../support/evaluate/plain_reading.ts";
import { protectedCases } from "../../../support/evaluate/protected_world.ts";
import { twistedCases } from "../../../support/evaluate/twist.ts";

const RUNS = process.env["DRAWBRIDGE_FULL"] === "1" ? 200_000 : 3000;
const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 0x7fff_ffff);

/** Cases, half of them with affinity, and the client's last endpoint: one of the existing ones or none. */
const cases = fc
  .tuple(twistedCases, fc.boolean(), fc.option(fc.nat(), { nil: undefined }))
  .map(([{ world, packet }, hasAffinity, number]) => ({
    world: hasAffinity ? { ...world, services: world.services.map(withAffinity) } : world,
    packet,
    remembered: number === undefined ? undefined : anyEndpoint(world, number),
  }));

function withAffinity(service: Service): Service {
  return { ...service, affinitySeconds: 10_800 };
}

function anyEndpoint({ endpointSlices }: ServiceWorld, number: number): SocketAddress | undefined {
  const all = endpointSlices.flatMap(({ ports, endpoints }) =>
    ports.flatMap(({ port }) => (port === undefined ? [] : endpoints.map(({ address }) => ({ address, port })))),
  );
  return all[number % Math.max(all.length, 1)];
}

const FURTHER_FEATURES = [
  "TCP",
  "UDP",
  "SCTP",
  "IPv4",
  "IPv6",
  "affinity new",
  "affinity kept",
  "affinity endpoint no longer a candidate",
];

describe(`the evaluator and a second, plain implementation of the behaviours (seed ${seed})`, function () {
  this.timeout(10 * 60_000);

  it(`MODEL-01: agree on ${RUNS} random packets`, () => {
    const statistics = new Statistics();
    fc.assert(
      fc.property(cases, ({ world, packet, remembered }) => {
        const verdict = evaluate(world, packet, remembered);
        const affinity = verdict.kind === "translate" ? verdict.affinity.type : "none";
        statistics.count(verdict, [packet.protocol, `IPv${familyOf(packet.destination)}`, `affinity ${affinity}`]);
        assert.deepEqual(inOrder(plainReading(world, packet, remembered)), inOrder(allowedOutcomes(verdict)));
      }),
      { numRuns: RUNS, seed },
    );
    console.log(`      ${statistics.format()}`);
    statistics.check(FURTHER_FEATURES);
  });

  it("CLAIM-01 CLAIM-02: agree where sockets, ports and networks are protected", () => {
    fc.assert(
      fc.property(protectedCases, ({ world, packet }) => {
        assert.deepEqual(inOrder(plainReading(world, packet)), inOrder(allowedOutcomes(evaluate(world, packet))));
      }),
      { numRuns: RUNS / 4, seed },
    );
  });
});

function inOrder(fates: Iterable<string>): readonly string[] {
  return [...fates].toSorted();
}
