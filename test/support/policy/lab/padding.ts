const RULES = 40;

interface Manifest {
  readonly kind?: string;
  readonly spec?: Readonly<Record<string, unknown>>;
}

/**
 * Objects with so many more rules in their NetworkPolicies that the compiler puts the rules together in large sets. They
 * are for pods and ports that nobody has, so they allow nothing.
 */
export function padded(objects: readonly object[]): readonly object[] {
  return objects.map((object) => {
    const { kind, spec } = object as Manifest;
    if (kind !== "NetworkPolicy" || spec === undefined) return object;
    return { ...object, spec: { ...spec, ...more(spec, "ingress", "from"), ...more(spec, "egress", "to") } };
  });
}

/** A direction without rules stays so: whether it is isolated may depend on that. */
function more(spec: Readonly<Record<string, unknown>>, direction: "ingress" | "egress", peers: "from" | "to"): object {
  const rules = spec[direction];
  if (!Array.isArray(rules) || rules.length === 0) return {};
  const further = Array.from({ length: RULES }, (_, index) => ({
    [peers]: [{ podSelector: { matchLabels: { nobody: `${index}` } } }],
    ports: [{ port: 9000 + index }],
  }));
  return { [direction]: [...(rules as readonly unknown[]), ...further] };
}
