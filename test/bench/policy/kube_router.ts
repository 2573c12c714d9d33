import type { BenchPod, BenchPolicy } from "./cluster.ts";
import {
  acceptText,
  baseTexts,
  collectText,
  FAMILIES,
  podText,
  policyText,
  type ResolvedPolicy,
  resolvePolicy,
} from "./kube_router_layout.ts";
import { type NftProgram, NOTHING, plus, type Spent } from "./nft_program.ts";

/** kube-router's layout on a node of its own, written as kube-router does. */
export class KubeRouter {
  readonly #nft: NftProgram;
  #pods: readonly BenchPod[];
  #policies: readonly ResolvedPolicy[];
  #version = 0;
  /** The pods and policies for which the last sync wrote chains. */
  #written: { readonly pods: readonly BenchPod[]; readonly policies: readonly BenchPolicy[] } = {
    pods: [],
    policies: [],
  };

  constructor(nft: NftProgram, pods: readonly BenchPod[], policies: readonly BenchPolicy[]) {
    this.#nft = nft;
    this.#pods = pods;
    this.#policies = policies.map((policy) => resolvePolicy(policy, pods));
  }

  /** Adds a pod, and writes everything. */
  addPod(pod: BenchPod): Spent {
    return this.#withPods([...this.#pods, pod]);
  }

  removePod({ number }: BenchPod): Spent {
    return this.#withPods(this.#pods.filter((pod) => pod.number !== number));
  }

  addPolicy(policy: BenchPolicy): Spent {
    this.#policies = [...this.#policies, resolvePolicy(policy, this.#pods)];
    return this.build();
  }

  removePolicy({ name }: BenchPolicy): Spent {
    this.#policies = this.#policies.filter(({ policy }) => policy.name !== name);
    return this.build();
  }

  /**
   * Makes a full sync (fullPolicySync), and returns the time of its runs of nft together, without kube-router's own
   * work between them.
   */
  build(): Spent {
    const version = String(++this.#version);
    const policies = this.#policies.map(({ policy }) => policy);
    const pods = this.#pods.filter(({ isLocal }) => isLocal);
    const old = this.#written;
    let spent = NOTHING;
    const load = (text: string): void => {
      if (text !== "") spent = plus(spent, this.#nft.load(text));
    };
    const list = (what: string): void => {
      for (const family of FAMILIES) spent = plus(spent, this.#nft.list(what, family === 4 ? "ip" : "ip6"));
    };
    for (const family of FAMILIES) for (const text of baseTexts(family)) load(text);
    for (const policy of this.#policies) {
      for (const family of FAMILIES) load(policyText(family, version, policy));
    }
    list("chains");
    list("sets");
    for (const pod of pods) for (const family of FAMILIES) load(podText(family, version, pod, policies));
    list("chains");
    for (const family of FAMILIES) load(collectText(family, String(this.#version - 1), old.pods, old.policies));
    for (const family of FAMILIES) load(acceptText(family));
    this.#written = { pods, policies };
    return spent;
  }

  #withPods(pods: readonly BenchPod[]): Spent {
    this.#pods = pods;
    this.#policies = this.#policies.map(({ policy }) => resolvePolicy(policy, pods));
    return this.build();
  }
}
