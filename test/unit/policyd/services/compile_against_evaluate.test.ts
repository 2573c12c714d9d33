import assert from "node:assert/strict";
import * as fc from "fast-check";
import { familyOf, parseAddress } from "../../../../kernel/ip/address.ts";
import type { Packet, SocketAddress } from "../../../../objects/semantics/services/packet.ts";
import { evaluate } from "../../../../objects/semantics/services/evaluate.ts";
import { allowedOutcomes } from "../../../support/evaluate/agreement.ts";
import { Statistics } from "../../../support/evaluate/features.ts";
import { serviceCases } from "../../../support/evaluate/arbitrary_world.ts";
import { protectedCases } from "../../../support/evaluate/protected_world.ts";
import { readPacket, readScenarios, scenarioWorld } from "../../../support/evaluate/scenario.ts";
import { twistedCases } from "../../../support/evaluate/twist.ts";
import { CompiledNode } from "../../../support/services/compiled_world.ts";
import { countedSeed, hasLongForm } from "../../../support/long_form.ts";

const isFull = hasLongForm("more random Services");
const RUNS = isFull ? 60_000 : 300;
/** The number of cases by whose features the generator is judged. */
const CASES = isFull ? 20_000 : 1500;
const seed = countedSeed();

/** Ports of these worlds have at most eight endpoints, so the numbers below eight reach each place of each map. */
const NUMBERS = [0, 1, 2, 3, 4, 5, 6, 7];

describe(`services: the compiled rules do what the objects say (seed ${seed})`, function () {
  this.timeout(20 * 60_000);

  it("MODEL-02 SVC-09 SVC-13 SVC-14 SVC-18 ETP-01 ETP-02 ITP-01 LB-06: every packet has the evaluator's outcomes", () => {
    fc.assert(
      fc.property(twistedCases, ({ world, packet }) => {
        const node = new CompiledNode(world);
        const walked = NUMBERS.flatMap((number) => node.walk([packet], (modulus) => number % modulus));
        assert.deepEqual(inOrder(walked), inOrder(allowedOutcomes(evaluate(world, packet))));
      }),
      { numRuns: RUNS, seed },
    );
  });

  it("the random worlds have every kind of verdict and of endpoint often enough", () => {
    const statistics = new Statistics();
    for (const { world, packet } of fc.sample(twistedCases, { numRuns: CASES, seed })) {
      statistics.count(evaluate(world, packet), [packet.protocol, `IPv${familyOf(packet.destination)}`]);
    }
    console.log(`      ${statistics.format()}`);
    statistics.check(["TCP", "UDP", "SCTP", "IPv4", "IPv6"]);
  });

  it("CLAIM-01 CLAIM-02: every packet has the evaluator's outcomes where sockets, ports and networks are protected", () => {
    const kinds = { protected: 0, served: 0 };
    fc.assert(
      fc.property(protectedCases, ({ world, packet }) => {
        const node = new CompiledNode(world);
        const walked = NUMBERS.flatMap((number) => node.walk([packet], (modulus) => number % modulus));
        const verdict = evaluate(world, packet);
        assert.deepEqual(inOrder(walked), inOrder(allowedOutcomes(verdict)));
        const isRefused = verdict.kind === "pass" && verdict.nearMisses.some(({ type }) => type === "refused");
        if (isRefused) kinds.protected++;
        if (verdict.kind === "translate") kinds.served++;
      }),
      { numRuns: RUNS, seed },
    );
    // Both kinds occur often enough.
    assert.ok(Math.min(kinds.protected, kinds.served) > RUNS / 20, JSON.stringify(kinds));
  });

  for (const file of ["frontends", "endpoints", "dual_stack"]) {
    for (const [name, scenario] of readScenarios(new URL(`${file}.yaml`, import.meta.url))) {
      // The guard drops packets from the bridge without a pod's address, and its table is not walked here.
      if (name === "senders") continue;
      it(`SVC-18: the packets of the scenario ${name} have the evaluator's outcomes`, () => {
        const world = scenarioWorld(scenario, "IPv4");
        const node = new CompiledNode(world);
        for (const text of Object.keys(scenario.packets)) {
          const [packet] = readPacket(text);
          const walked = NUMBERS.flatMap((number) => node.walk([packet], (modulus) => number % modulus));
          assert.deepEqual(inOrder(walked), inOrder(allowedOutcomes(evaluate(world, packet))), text);
        }
      });
    }
  }

  it("SVC-14 CLAIM-01: at a Service's address with another's protected socket clients other than pods are masqueraded, also with affinity", () => {
    const scenario = readScenarios(new URL("endpoints.yaml", import.meta.url)).get("affinity");
    assert.ok(scenario !== undefined);
    const plain = scenarioWorld(scenario, "IPv4");
    const socket = { address: parseAddress("10.96.0.1"), protocol: "UDP", port: 53, owner: "a test" } as const;
    const protection = { sockets: [socket], ports: [], serviceCidrs: [] };
    const world = { ...plain, configuration: { ...plain.configuration, protection } };
    const [packet] = readPacket("node 10.240.0.5 TCP 10.96.0.1:80");
    assert.deepEqual(
      new Set(NUMBERS.flatMap((number) => new CompiledNode(world).walk([packet], (modulus) => number % modulus))),
      new Set(["10.244.0.5:80", "10.244.1.5:80", "10.244.1.6:80"].map((to) => `${to.replace(":", " ")} masqueraded`)),
    );
  });

  it("SA-01 SA-05 SA-07: a client's next packet has the evaluator's outcomes, by whatever frontend it comes", () => {
    const affine = serviceCases.map(({ world, packet }) => ({
      world: { ...world, services: world.services.map((service) => ({ ...service, affinitySeconds: 10_800 })) },
      packet,
    }));
    fc.assert(
      fc.property(affine, fc.constantFrom(...NUMBERS), ({ world, packet }, number) => {
        const node = new CompiledNode(world);
        const next: Packet = { ...packet, sourcePort: packet.sourcePort + 1 };
        const fates = NUMBERS.map((other) =>
          node.walk([packet, next], (modulus, which) => (which === 0 ? number : other) % modulus),
        );
        const [first = ""] = fates[0] ?? [];
        const allowed = allowedOutcomes(evaluate(world, next, remembered(first)));
        assert.deepEqual(inOrder(fates.flatMap(([, second = ""]) => second)), inOrder(allowed));
      }),
      { numRuns: RUNS / 2, seed },
    );
  });
});

/** The endpoint of a packet with this outcome, or undefined. */
function remembered(fate: string): SocketAddress | undefined {
  const [address = "", port] = fate.split(" ");
  return port === undefined || Number.isNaN(Number(port))
    ? undefined
    : { address: parseAddress(address), port: Number(port) };
}

function inOrder(fates: Iterable<string>): readonly string[] {
  return [...new Set(fates)].toSorted();
}
