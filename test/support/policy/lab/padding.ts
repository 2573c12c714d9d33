const RULES = 40;

interface Manifest {
  readonly kind?: string;
  readonly spec?: Readonly<Record<string, unknown>>;
}

/**
 * Returns objects whose NetworkPolicies have enough further rules that the compiler combines the rules in large sets. The
 * further rules are for pods and ports that do not exist, so they allow nothing.
 */
export function padded(objects: readonly object[]): readonly object[] {
  return objects.map((object) => {
    const { kind, spec } = object as Manifest;
    if (kind !== "NetworkPolicy" || spec === undefined) return object;
    return { ...object, spec: { ...spec, ...more(spec, "ingress", "from"), ...more(spec, "egress", "to") } };
  });
}

/** Returns more rules for a direction. A direction without rules stays so, since its isolation may depend on that. */
function more(spec: Readonly<Record<string, unknown>>, direction: "ingress" | "egress", peers: "from" | "to"): object {
  const rules = spec[direction];
  if (!Array.isArray(rules) || rules.length === 0) return {};
  const further = Array.from({ length: RULES }, (_, index) => ({
    [peers]: [{ podSelector: { matchLabels: { nobody: `${index}` } } }],
    ports: [{ port: 9000 + index }],
  }));
  return { [direction]: [...(rules as readonly unknown[]), ...further] };
}
