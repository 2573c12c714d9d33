import type { Labels } from "./model.ts";
import { expectInteger, expectString, invalid, type Reader } from "./gate/reader.ts";

const LONGEST_NAME = 253;
/** The most characters of one of our annotations. */
export const LONGEST_ANNOTATION = 1024;
const MOST_LABELS = 512;
/** The most characters of all labels of an object, which stay in memory: ten times those of a node with many features. */
const LONGEST_LABELS = 32_768;
/** The label that every namespace has, with its name. */
export const NAMESPACE_NAME = "kubernetes.io/metadata.name";

/** The label of a Node that names its zone. */
export const ZONE_LABEL = "topology.kubernetes.io/zone";
const OUR_ANNOTATIONS = "drawbridge.dev/";

/**
 * Returns the name of an object, which has to be a DNS subdomain (RFC 1123) for every kind we read.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function expectName(value: unknown, field: string): string {
  const name = expectString(value, field, LONGEST_NAME);
  if (isSubdomain(name)) return name;
  throw invalid(field, name, `1 to ${LONGEST_NAME} of "a" to "z", digits, "-" and ".", as in "web-0.example"`);
}

/**
 * Returns a name that has to be a DNS label (RFC 1123), such as that of a namespace, a Service or a port.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function expectLabelName(value: unknown, field: string): string {
  const name = expectString(value, field, 63);
  if (/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name)) return name;
  throw invalid(field, name, '1 to 63 of "a" to "z", digits and "-"');
}

/**
 * Returns the name of a container's port (IANA service name, RFC 6335). It has a letter, so that it is not a number.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function expectPortName(value: unknown, field: string): string {
  const name = expectString(value, field, 15);
  if (/^(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*$/.test(name)) return name;
  throw invalid(field, name, '1 to 15 of "a" to "z", digits and single "-", at least one letter');
}

/** Returns a port number. @throws DrawbridgeError ERR_OBJECT */
export function expectPort(value: unknown, field: string): number {
  return expectInteger(value, field, 1, 65_535);
}

/** Returns a port number or a container port's name. @throws DrawbridgeError ERR_OBJECT */
export function expectPortOrName(value: unknown, field: string): number | string {
  return typeof value === "string" ? expectPortName(value, field) : expectPort(value, field);
}

/**
 * Returns the key of a label: a name of up to 63 characters, optionally after a DNS subdomain and "/".
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function expectLabelKey(value: unknown, field: string): string {
  const key = expectString(value, field, LONGEST_NAME + 64);
  const slash = key.indexOf("/");
  const isPrefixed = slash < 0 || (slash <= LONGEST_NAME && isSubdomain(key.slice(0, slash)));
  if (isPrefixed && /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/.test(key.slice(slash + 1))) return key;
  throw invalid(field, key, 'a label key as in "app" or "example.org/tier"');
}

/** Returns the value of a label, which may be empty. @throws DrawbridgeError ERR_OBJECT */
export function expectLabelValue(value: unknown, field: string): string {
  const text = expectString(value, field, 63);
  if (/^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$/.test(text)) return text;
  throw invalid(field, text, 'at most 63 letters, digits, "-", "_" and ".", a letter or digit at both ends');
}

/**
 * Returns all labels below a key; none where it is absent. Null is the empty text, as Go reads it into a map of texts:
 * a selector without that label would select more.
 *
 * @throws DrawbridgeError ERR_OBJECT for an invalid label: without it a selector might match what it should not
 */
export function readLabels(reader: Reader, key: string): Labels {
  const labels = reader.object(key);
  const entries = labels.entries();
  if (entries.length > MOST_LABELS) throw invalid(labels.field, `${entries.length} labels`, `at most ${MOST_LABELS}`);
  const read = entries.map(([name, value]): [string, string] => [
    expectLabelKey(name, `${labels.field} key`),
    expectLabelValue(value ?? "", `${labels.field}[${JSON.stringify(name)}]`),
  ]);
  const length = read.reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  if (length > LONGEST_LABELS) throw invalid(labels.field, `${length} characters`, `at most ${LONGEST_LABELS}`);
  return frozenLabels(read);
}

/** The values of those annotations that do not take any text. */
const ANNOTATION_VALUES: Readonly<Record<string, readonly string[]>> = {
  [`${OUR_ANNOTATIONS}enforce-source-ranges`]: ["true", "false"],
};

/** Returns our own annotations; one with an invalid value is ignored and reported. */
export function readAnnotations(metadata: Reader): Labels {
  const annotations = metadata.object("annotations");
  const ours: [string, string][] = [];
  for (const [name, value] of annotations.entries()) {
    if (!name.startsWith(OUR_ANNOTATIONS) || value === null) continue;
    const entry = metadata.attempt(() => [
      expectLabelKey(name, `${annotations.field} key`),
      expectAnnotation(name, value, `${annotations.field}[${JSON.stringify(name)}]`),
    ]);
    const [key, text] = entry ?? [];
    if (key !== undefined && text !== undefined) ours.push([key, text]);
  }
  return frozenLabels(ours);
}

/** @throws DrawbridgeError ERR_OBJECT */
function expectAnnotation(name: string, value: unknown, field: string): string {
  const text = expectString(value, field, LONGEST_ANNOTATION);
  const values = Object.hasOwn(ANNOTATION_VALUES, name) ? ANNOTATION_VALUES[name] : undefined;
  if (values === undefined || values.includes(text)) return text;
  throw invalid(field, text, values.map((one) => JSON.stringify(one)).join(" or "));
}

/** Returns frozen labels, in the order of their keys. */
export function frozenLabels(entries: readonly (readonly [string, string])[]): Labels {
  const labels: Record<string, string> = Object.fromEntries([...entries].sort(([a], [b]) => (a < b ? -1 : 1)));
  Object.setPrototypeOf(labels, null);
  return Object.freeze(labels);
}

function isSubdomain(text: string): boolean {
  return text.length <= LONGEST_NAME && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/.test(text);
}

/** Returns the labels of a namespace that is not among the objects: that of its name, which every one has (POL-24). */
export function nameLabel(namespace: string): Labels {
  return frozenLabels([[NAMESPACE_NAME, namespace]]);
}
