/** The keys a schema declares, nested as the data is; an array's shape stands for each of its elements. */
export type KeyShape = { readonly [key: string]: KeyShape | true } | readonly [KeyShape];

/**
 * Folds the keys of a JSON value onto the spelling a schema declares, as Go's decoder matches them: without case, the
 * last of several wins, null counts as an absent key.
 *
 * containerd sends runtime data as `HostPort` and `IngressRate`, CRI-O as `hostPort` and `ingressRate`; reading only
 * one of them loses every hostPort of the other.
 */
export function foldKeys(value: unknown, shape: KeyShape | true): unknown {
  if (shape === true || value === null || typeof value !== "object") return value;
  if (isArrayShape(shape)) {
    return Array.isArray(value) ? value.map((element: unknown) => foldKeys(element, shape[0])) : value;
  }
  if (Array.isArray(value)) return value;
  const declared = new Map(Object.keys(shape).map((key) => [key.toLowerCase(), key]));
  const folded: Record<string, unknown> = {};
  for (const [key, element] of Object.entries(value)) {
    const name = declared.get(key.toLowerCase());
    const inner = name === undefined ? undefined : shape[name];
    if (name !== undefined && inner !== undefined && element !== null) folded[name] = foldKeys(element, inner);
  }
  return folded;
}

/**
 * Whether objects and lists are nested in more than `levels` levels. JSON.parse takes any depth, JSON.stringify
 * overflows the stack at some thousands.
 */
export function isNestedDeeper(value: unknown, levels: number): boolean {
  if (value === null || typeof value !== "object") return false;
  return levels === 0 || Object.values(value).some((inner) => isNestedDeeper(inner, levels - 1));
}

/** A value for an error message: its JSON, cut where it is long; "missing" for undefined. */
export function showValue(value: unknown): string {
  const text = JSON.stringify(value) ?? "missing";
  return text.length <= LONGEST_SHOWN ? text : `${text.slice(0, LONGEST_SHOWN)}…`;
}

const LONGEST_SHOWN = 200;

function isArrayShape(shape: KeyShape): shape is readonly [KeyShape] {
  return Array.isArray(shape);
}
