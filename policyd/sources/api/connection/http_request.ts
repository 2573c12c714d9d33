import http, { type ClientRequest } from "node:http";
import https from "node:https";
import { VERSION } from "../../../version.ts";
import type { Credentials } from "./kubeconfig.ts";

/** The content type of a body, by the method that sends it. */
const CONTENT_TYPES = { POST: "application/json", PATCH: "application/strategic-merge-patch+json" } as const;

export type WriteMethod = keyof typeof CONTENT_TYPES;

/** Returns the base URL of a server, without a trailing slash. */
export function baseOf(server: URL): string {
  return `${server.origin}${server.pathname.replace(/\/+$/, "")}`;
}

/**
 * Opens a request to the API server; the caller ends it. Redirects are not followed: they would carry the credentials
 * to another server.
 *
 * @param program the name in the User-Agent
 * @param method for any method but GET, end the request with a JSON body
 */
export function apiRequest(
  { server, options }: Credentials,
  path: string,
  program: string,
  signal?: AbortSignal,
  method: "GET" | WriteMethod = "GET",
): ClientRequest {
  const headers = {
    ...options.headers,
    Accept: "application/json",
    "User-Agent": `${program}/${VERSION}`,
    ...(method === "GET" ? {} : { "Content-Type": CONTENT_TYPES[method] }),
  };
  const { request } = server.protocol === "http:" ? http : https;
  return request(`${baseOf(server)}${path}`, {
    ...options,
    method,
    headers,
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Whether an error's code says that one end does not accept the other's certificate. */
export function isOfCertificates(code: string): boolean {
  return /CERT|TLS|SSL|SIGNATURE|ISSUER/.test(code);
}
