import type { HealthCheck } from "./health_check.ts";

/**
 * Decides which Service gets a health check's port number that several claim: the one whose `namespace/name` sorts
 * first, whatever the order in which they arrived (DP-04). Only the API server ensures unique numbers, files do not.
 *
 * The cost of a change depends only on the claims to the numbers it affects.
 */
export class CheckHolders {
  readonly #numbers = new Map<string, number>();
  readonly #claims = new Map<number, ReadonlyMap<string, HealthCheck>>();

  /** Replaces a Service's check, undefined for none. @returns the affected port numbers */
  replace(key: string, check: HealthCheck | undefined): ReadonlySet<number> {
    const touched = new Set<number>();
    const before = this.#numbers.get(key);
    if (before !== undefined) {
      const others = [...(this.#claims.get(before) ?? [])].filter(([other]) => other !== key);
      if (others.length === 0) this.#claims.delete(before);
      else this.#claims.set(before, new Map(others));
      this.#numbers.delete(key);
      touched.add(before);
    }
    if (check !== undefined) {
      const others = this.#claims.get(check.port) ?? [];
      this.#claims.set(check.port, new Map([...others, [key, check]]));
      this.#numbers.set(key, check.port);
      touched.add(check.port);
    }
    return touched;
  }

  /** Returns the check that has a port number. */
  holder(port: number): HealthCheck | undefined {
    return this.#sorted(port)[0];
  }

  /** Returns the numbers that any Service has. */
  ports(): readonly number[] {
    return [...this.#claims.keys()];
  }

  /** Returns, for administrators, the Services that have no check since another one has their number. */
  problems(): readonly string[] {
    return this.ports().flatMap((port) => {
      const [holder, ...others] = this.#sorted(port);
      return others.map(
        ({ key }) =>
          `Service ${key}: healthCheckNodePort ${port} is Service ${holder?.key}'s; expected a number of its own`,
      );
    });
  }

  #sorted(port: number): readonly HealthCheck[] {
    return [...(this.#claims.get(port)?.values() ?? [])].sort((a, b) => (a.key < b.key ? -1 : 1));
  }
}
