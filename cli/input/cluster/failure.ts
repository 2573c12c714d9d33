import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable } from "../../../objects/printable.ts";
import type { ApiResponse } from "./object_input.ts";
import type { Resource } from "./resources.ts";

/** Characters of the server's message that are printed. */
const LONGEST_WORDS = 300;

/** Returns the error for a list that could not be read, with server, resource, reason and way out. */
export function listFailure(server: string, resource: Resource, reason: string, wayOut: string): DrawbridgeError {
  return new DrawbridgeError("ERR_INPUT", printable(`${server}: list ${resource.name}: ${reason}; ${wayOut}`));
}

/** Returns the error for a list that the server refused. */
export function refusal(server: string, resource: Resource, response: ApiResponse): DrawbridgeError {
  const { reason, wayOut } = meaningOf(response.status, resource);
  return listFailure(server, resource, `${reason}${wordsOf(response)}`, wayOut);
}

function meaningOf(status: number, { name }: Resource): { readonly reason: string; readonly wayOut: string } {
  switch (status) {
    case 401:
      return {
        reason: "401, the server does not know who asks",
        wayOut: "log in again, or choose another user by --context or --kubeconfig",
      };
    case 403:
      return {
        reason: "403, this user may not do it",
        wayOut: `expected the verbs get and list on it in all namespaces: ask kubectl auth can-i list ${name} -A`,
      };
    case 404:
      return { reason: "404, there is no such list", wayOut: "expected the address of a Kubernetes API server" };
    case 410:
      return { reason: "410, the list expired twice while it was read", wayOut: "try again" };
    case 429:
      return { reason: "429, the server has too much to do", wayOut: "try again later" };
    default:
      return { reason: `status ${status}; expected 200`, wayOut: `see whether kubectl get ${name} -A works` };
  }
}

/** Returns the message of the Status object that API servers send with a refusal. */
function wordsOf({ body }: ApiResponse): string {
  let status: unknown;
  try {
    status = JSON.parse(Buffer.concat(body).toString());
  } catch {
    return "";
  }
  if (typeof status !== "object" || status === null || !("message" in status)) return "";
  return typeof status.message === "string" ? ` (${status.message.slice(0, LONGEST_WORDS)})` : "";
}
