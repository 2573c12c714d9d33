import { type BenchPod, type BenchPolicy, selects } from "./cluster.ts";
import { type NftProgram, NOTHING, type Spent } from "./nft_program.ts";
import { obviousPodText, obviousPolicyRemoval, obviousPolicyText, obviousText } from "./obvious_layout.ts";

/** The obvious layout on a node of its own, written and changed by the program nft. */
export class Obvious {
  readonly #nft: NftProgram;
  readonly #pods: readonly BenchPod[];
  readonly #local: readonly BenchPod[];
  readonly #policies: readonly BenchPolicy[];

  constructor(nft: NftProgram, pods: readonly BenchPod[], policies: readonly BenchPolicy[]) {
    this.#nft = nft;
    this.#pods = pods;
    this.#local = pods.filter(({ isLocal }) => isLocal);
    this.#policies = policies;
  }

  /** Builds everything from nothing. */
  build(): Spent {
    return this.#nft.load(obviousText(this.#pods, this.#policies));
  }

  addPod(pod: BenchPod): Spent {
    return this.#load(obviousPodText("add", pod, this.#local, this.#policies));
  }

  removePod(pod: BenchPod): Spent {
    return this.#load(obviousPodText("delete", pod, this.#local, this.#policies));
  }

  /** Adds a policy that selects a local pod, which has one already. */
  addPolicy(policy: BenchPolicy): Spent {
    return this.#load(
      this.#selectedBy(policy)
        .map((pod) => obviousPolicyText(pod, policy, this.#pods))
        .join(""),
    );
  }

  removePolicy(policy: BenchPolicy): Spent {
    return this.#load(
      this.#selectedBy(policy)
        .map((pod) =>
          obviousPolicyRemoval(
            pod,
            policy,
            this.#policies.filter((other) => selects(other, pod)),
          ),
        )
        .join(""),
    );
  }

  #selectedBy(policy: BenchPolicy): readonly BenchPod[] {
    return this.#local.filter((pod) => selects(policy, pod));
  }

  #load(text: string): Spent {
    return text === "" ? NOTHING : this.#nft.load(text);
  }
}
