import { expectString, Reader } from "../../../objects/gate/reader.ts";

/** The requests that a default backend gets. */
export const OTHER_REQUESTS = "any other request";

/** Types of paths that stand for all paths below them, as most paths do; any other type is named. */
const PREFIXES: ReadonlySet<string> = new Set(["Prefix", "PathPrefix", "ImplementationSpecific"]);
/** Stands for all hosts, as kubectl prints it. */
const ANY_HOST = "*";

/** Returns the requests for a path of an Ingress as text: `shop.example/cart`, or with `*` for any host. */
export function ingressRequest(rule: Reader, path: Reader): string {
  const host = rule.optionalString("host") || ANY_HOST;
  return `${host}${path.optionalString("path") || "/"}${typeText(path.optionalString("pathType"))}`;
}

/** Returns the host names of a route, and `*` for one that names none. */
export function hostsOf(spec: Reader): readonly string[] {
  const hosts = spec.all("hostnames", (value, field) => expectString(value, field));
  return hosts.length === 0 ? [ANY_HOST] : hosts;
}

/**
 * Returns the requests for a rule of a route as texts, one for each host and match: `shop.example/cart`, and
 * `POST shop.example/cart (header x-canary)` with more conditions.
 */
export function routeRequests(rule: Reader, hosts: readonly string[]): readonly string[] {
  const matches = rule.all("matches", (value, field) => matchOf(new Reader(value, field)));
  const all = matches.length === 0 ? [{ method: "", path: "/", conditions: "" }] : matches;
  return hosts.flatMap((host) => all.map(({ method, path, conditions }) => `${method}${host}${path}${conditions}`));
}

interface Match {
  /** With a space after it; empty for any. */
  readonly method: string;
  readonly path: string;
  /** In brackets with a space before them; empty without any. */
  readonly conditions: string;
}

function matchOf(match: Reader): Match {
  const named = (key: string, word: string): readonly string[] =>
    match.all(key, (value, field) => `${word} ${new Reader(value, field).string("name")}`);
  const conditions = [...named("headers", "header"), ...named("queryParams", "parameter")];
  const end = conditions.length === 0 ? "" : ` (${conditions.join(", ")})`;
  const method = match.get("method");
  // A GRPCRoute has an object there: the service and the method, which are the path of a request.
  if (typeof method === "object") {
    const grpc = match.object("method");
    const parts = [grpc.optionalString("service"), grpc.optionalString("method")].map((part) => part || "*");
    return { method: "", path: `/${parts.join("/")}${typeText(grpc.optionalString("type"))}`, conditions: end };
  }
  const path = match.object("path");
  return {
    method: method === undefined ? "" : `${match.string("method")} `,
    path: `${path.optionalString("value") || "/"}${typeText(path.optionalString("type"))}`,
    conditions: end,
  };
}

function typeText(type: string | undefined): string {
  return type === undefined || PREFIXES.has(type) ? "" : ` (${type})`;
}
