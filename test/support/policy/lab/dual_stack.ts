/** The prefixes of both families in a lab that replace an IPv4 prefix of a policy. */
export type Twins = ReadonlyMap<string, readonly [ipv4: string, ipv6: string]>;

/**
 * Returns policies with each `ipBlock` twice, once in each family.
 *
 * @throws Error for a prefix that has no twins
 */
export function dualStack<T>(value: T, twins: Twins): T {
  return converted(value, twins) as T;
}

function converted(value: unknown, twins: Twins): unknown {
  if (Array.isArray(value)) {
    return value.flatMap((member): readonly unknown[] =>
      isBlock(member) ? both(member, twins) : [converted(member, twins)],
    );
  }
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, converted(member, twins)]));
}

interface BlockPeer {
  readonly ipBlock: { readonly cidr: string; readonly except?: readonly string[] };
}

function isBlock(value: unknown): value is BlockPeer {
  return typeof value === "object" && value !== null && "ipBlock" in value;
}

function both({ ipBlock: { cidr, except } }: BlockPeer, twins: Twins): readonly BlockPeer[] {
  return ([0, 1] as const).map((family) => ({
    ipBlock: {
      cidr: twinOf(cidr, twins)[family],
      ...(except === undefined ? {} : { except: except.map((one) => twinOf(one, twins)[family]) }),
    },
  }));
}

function twinOf(prefix: string, twins: Twins): readonly [string, string] {
  const found = twins.get(prefix);
  if (found === undefined) throw new Error(`no twins of ${prefix}`);
  return found;
}
