import { domainToASCII } from "node:url";
import { expectString, invalid } from "./gate/reader.ts";

/** The port of DNS servers, for TCP and UDP. */
export const DNS_PORT = 53;
/** The usual domain of a cluster. Its names stand for pods, which policies select by labels. */
export const CLUSTER_DOMAIN = "cluster.local";

const LONGEST_NAME = 253;
const NAME = /^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
const ANY_BELOW = "*.";

/**
 * Returns a domain name as it is compared: in lower case, in ASCII (IDNA), without a dot at its end. A pattern such as
 * `*.example.com` stands for all names below `example.com`, however many labels they have more.
 *
 * @throws DrawbridgeError ERR_OBJECT for anything else, such as `*` elsewhere, and for names of the cluster's domain
 */
export function expectDomainPattern(value: unknown, field: string): string {
  const text = expectString(value, field);
  const prefix = text.startsWith(ANY_BELOW) ? ANY_BELOW : "";
  const name = comparableName(text.slice(prefix.length));
  if (name === undefined || prefix.length + name.length > LONGEST_NAME) {
    throw invalid(field, text, 'a domain name of two labels or more, as "api.example.com" or "*.example.com"');
  }
  if (isInDomain(CLUSTER_DOMAIN, name)) {
    throw invalid(field, text, `a name outside of ${CLUSTER_DOMAIN}: select the cluster's pods by their labels`);
  }
  return `${prefix}${name}`;
}

/** Returns whether a pattern stands for a name, both in comparable form. */
export function matchesDomain(pattern: string, name: string): boolean {
  if (!pattern.startsWith(ANY_BELOW)) return pattern === name;
  return name.length > pattern.length - 1 && name.endsWith(pattern.slice(1));
}

/** Returns all patterns that stand for a name, both in comparable form: as many as it has labels. */
export function patternsOf(name: string): readonly string[] {
  const found = [name];
  for (let dot = name.indexOf(".", 1); dot !== -1; dot = name.indexOf(".", dot + 1)) {
    found.push(`${ANY_BELOW}${name.slice(dot + 1)}`);
  }
  return found;
}

const patternSets = new WeakMap<readonly string[], ReadonlySet<string>>();

/** Returns whether one of some patterns stands for a name, which takes as long for thousands of them as for a few. */
export function matchesOne(patterns: readonly string[], name: string): boolean {
  const known = patternSets.get(patterns) ?? new Set(patterns);
  patternSets.set(patterns, known);
  return patternsOf(name).some((pattern) => known.has(pattern));
}

/** Returns whether a name is that of a domain, or of anything below it. */
export function isInDomain(domain: string, name: string): boolean {
  return matchesDomain(domain, name) || matchesDomain(`${ANY_BELOW}${domain}`, name);
}

/** Returns a name in the form in which names are compared; undefined for any other text, also for a single label. */
export function comparableName(text: string): string | undefined {
  const name = asciiName(text.endsWith(".") ? text.slice(0, -1) : text);
  // A name that ends in a number would be taken for an IPv4 address.
  return name.length <= LONGEST_NAME && NAME.test(name) && !/\.[0-9]+$/.test(name) ? name : undefined;
}

/** Only letters beyond ASCII need IDNA, whose parser of URLs would take `a/b` for the host `a`. */
function asciiName(text: string): string {
  return /^[\x21-\x7e]*$/.test(text) || /[\p{Cc}\s/?#@:\\%[\]]/u.test(text) ? text.toLowerCase() : domainToASCII(text);
}
