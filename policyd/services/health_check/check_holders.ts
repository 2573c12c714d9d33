import type { HealthCheck } from "./health_check.ts";

/**
 * Which Service has a health check's port number that several want: the one whose `namespace/name` sorts first, whatever
 * the order in which they came (DP-04). The API server gives each number out once; files may not.
 *
 * A change costs the claims to the numbers it is about.
 */
export class CheckHolders {
  readonly #numbers = new Map<string, number>();
  readonly #claims = new Map<number, ReadonlyMap<string, HealthCheck>>();

  /** Takes over a Service's check as it is now, undefined for none. @returns the port numbers it is about */
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

  /** Whose number it is. */
  holder(port: number): HealthCheck | undefined {
    return this.#sorted(port)[0];
  }

  /** The numbers that somebody has. */
  ports(): readonly number[] {
    return [...this.#claims.keys()];
  }

  /** Who has no check, since another Service has its number; for people. */
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
