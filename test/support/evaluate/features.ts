import assert from "node:assert/strict";
import type { Verdict } from "../../../objects/semantics/services/verdict.ts";

/** The features that a generator of clusters and packets has to produce. */
const FEATURES = (
  "translate pass drop reject ClusterIP externalIP LoadBalancer NodePort hairpin masqueraded kept " +
  "source-range no-local-endpoint no-endpoints no-such-port local-pod node zone-hint node-hint terminating omitted"
).split(" ");

/** Counts how often verdicts of all kinds, and other features of cases, occurred. */
export class Statistics {
  readonly #counts = new Map<string, number>();
  #cases = 0;

  /** @param others features that the verdict does not show */
  count(verdict: Verdict, others: readonly string[] = []): void {
    this.#cases++;
    for (const feature of new Set([...featuresOf(verdict), ...others])) {
      this.#counts.set(feature, (this.#counts.get(feature) ?? 0) + 1);
    }
  }

  /** Returns one line: every feature with its share in percent. */
  format(): string {
    const shares = [...this.#counts].toSorted((a, b) => b[1] - a[1]);
    return `${this.#cases} cases: ${shares.map(([feature]) => `${feature} ${this.#percent(feature)}`).join(", ")}`;
  }

  /**
   * Asserts that no feature is rare. The generator's rarest feature is in 3.5 % of the cases, with a standard deviation
   * of 0.13 % for 20,000 of them, so that many reach the threshold with every seed.
   *
   * @throws AssertionError when a feature is in less than 2 % of the cases, or the share of cases that reach an
   * endpoint is not 30 to 70 %
   */
  check(others: readonly string[] = []): void {
    const rare = [...FEATURES, ...others].filter((feature) => this.#percent(feature) < 2);
    assert.deepEqual(rare, [], `rare: ${this.format()}`);
    const reachable = this.#percent("translate");
    assert.ok(reachable > 30 && reachable < 70, `${reachable} % are reachable`);
  }

  #percent(feature: string): number {
    return Math.round((1000 * (this.#counts.get(feature) ?? 0)) / this.#cases) / 10;
  }
}

function featuresOf(verdict: Verdict): readonly string[] {
  if (verdict.kind === "pass") return ["pass"];
  if (verdict.kind !== "translate") return [verdict.kind, verdict.reason.type.replaceAll(" ", "-")];
  const { frontend, route, candidates, endpoints } = verdict;
  return [
    "translate",
    frontend.type,
    route.because.replaceAll(" ", "-"),
    ...candidates.flatMap(({ masquerade, because }) => [
      masquerade.because,
      masquerade.masqueraded ? "masqueraded" : "kept",
      ...because.map(({ type }) => (type === "serving while terminating" ? "terminating" : type.replaceAll(" ", "-"))),
    ]),
    ...(endpoints.omitted.length > 0 ? ["omitted"] : []),
  ];
}
