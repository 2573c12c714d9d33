import { FAMILIES } from "../../../../kernel/ip/address.ts";
import { askInBothStates } from "./expectation.ts";
import { type ConformanceSubtest, type Poke, pokesOf } from "../cnp_conformance/conformance_case.ts";
import { addressesOf, hogwarts, type House, HOUSES, keyOf, pairOf, type PodName } from "../cnp_conformance/hogwarts.ts";
import { NODE_NAMES, type NodeName, type PodPlace, textsOf } from "./place.ts";
import { PolicyLab } from "./policy_lab.ts";
import { type Question, questionText, type Traffic } from "./question.ts";
import { renamed } from "./renamed.ts";
import { singleService } from "./service.ts";

type Listening = readonly (readonly [protocol: "tcp" | "udp" | "sctp", ports: readonly number[]])[];

const POD_PORTS: Listening = [
  ["tcp", [80, 8080]],
  ["udp", [53, 5353]],
  ["sctp", [9003, 9005]],
];
/** The ports that pods of the hosts' network serve. */
const NODE_PORTS: Listening = [
  ["tcp", [36_363, 36_364]],
  ["udp", [34_345, 34_347]],
  ["sctp", [9005]],
];

const POD_NAMES: readonly PodName[] = (Object.keys(HOUSES) as House[]).flatMap(pairOf);

/** Whether a pod is in the hosts' network; in the lab such pods are nodes. */
const isCentaur = (pod: PodName): boolean => pod.startsWith("centaur");
const nodeOf = (pod: PodName): NodeName => (pod.endsWith("0") ? "node1" : "node2");
const placeOf = (pod: PodName): string => (isCentaur(pod) ? nodeOf(pod) : keyOf(pod));

/** The cluster of the conformance suite as a lab, with a pod of each pair on each node. */
export class HogwartsLab {
  readonly lab: PolicyLab;
  readonly #names: ReadonlyMap<string, string>;
  readonly #services: ReadonlyMap<string, readonly [string, string]>;

  private constructor(lab: PolicyLab) {
    this.lab = lab;
    this.#names = new Map([
      ["node-0", "node1"],
      ["node-1", "node2"],
      ...POD_NAMES.flatMap((pod) => {
        const own = textsOf(lab.place(placeOf(pod)));
        return addressesOf(pod).map((text, index): [string, string] => [text, own[index] ?? ""]);
      }),
    ]);
    this.#services = new Map(
      lab.pods.map(({ name }, index) => [name, [`10.96.0.${index + 1}`, `fd00:96::${index + 1}`] as const]),
    );
  }

  static async create(bridgeNetfilter: Readonly<Record<NodeName, boolean>>): Promise<HogwartsLab> {
    const pods = POD_NAMES.filter((pod) => !isCentaur(pod)).map((pod): PodPlace => ({
      key: keyOf(pod),
      node: nodeOf(pod),
    }));
    const lab = await PolicyLab.create({ name: "hogwarts", pods, bridgeNetfilter });
    const serving = [
      ...lab.pods.map((place) => [place, POD_PORTS] as const),
      ...NODE_NAMES.map((name) => [lab.place(name), NODE_PORTS] as const),
    ];
    for (const [{ namespace, addresses }, listening] of serving) {
      for (const family of FAMILIES) {
        for (const [protocol, ports] of listening) {
          for (const port of ports) lab.shooter.listen(protocol, { namespace, address: addresses[family], port });
        }
      }
    }
    return new HogwartsLab(lab);
  }

  /**
   * Returns the pokes of a subtest whose outcome is not upstream's, in both families and both states of br_netfilter.
   */
  async failures(subtest: ConformanceSubtest): Promise<readonly string[]> {
    const objects = [...hogwarts(), ...subtest.policies];
    const services = this.lab.pods.map((place) =>
      singleService(place, this.#services.get(place.name) ?? ["", ""], "TCP", 80),
    );
    const isThroughService = subtest.flows.some((flows) => flows.isThroughService === true);
    await this.lab.apply([...renamed(objects, this.#names), ...(isThroughService ? services.flat() : [])]);
    const asked = pokesOf(subtest).flatMap((poke) =>
      this.#questions(poke).map((question) => ({ ...question, expected: poke.isAllowed ? "." : "X" })),
    );
    const failures = await askInBothStates(this.lab, asked, (question, { mark }) =>
      mark === question.expected ? [] : [`${questionText(question)}: ${mark}`],
    );
    this.lab.forgetConnections();
    return failures;
  }

  #questions({ from, to, traffic, isThroughService }: Poke): readonly Question[] {
    return FAMILIES.map((family, index) => ({
      from: placeOf(from),
      to: isThroughService ? (this.#services.get(placeOf(to))?.[index] ?? "") : placeOf(to),
      traffic: traffic as Traffic,
      family,
    }));
  }
}
