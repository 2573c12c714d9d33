import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable } from "../../log/line.ts";

/** Why a request came to nothing, or to no more. */
export type Failure =
  /** The server said no, by its status or, in a watch, by an event. */
  | {
      readonly type: "refused";
      readonly status: number;
      /** Its own words; empty without any. */
      readonly words: string;
      /** For how many seconds it wants to be left alone. */
      readonly retryAfter: number | undefined;
      readonly isEvent: boolean;
    }
  /** No answer, or one that broke off or makes no sense. */
  | { readonly type: "broken"; readonly reason: string }
  /** Nothing came for too long: the other end may be gone without a word. */
  | { readonly type: "silent" }
  /** It ended in order. */
  | { readonly type: "closed" };

/** Of what the server says about it. */
const LONGEST_WORDS = 300;

export function broken(reason: string): Failure {
  return { type: "broken", reason };
}

/** What `read` returns, or that the answer makes no sense. @throws what is not of our family: it is a bug */
export function attempt<T>(read: () => T): T | Failure {
  try {
    return read();
  } catch (error) {
    if (error instanceof DrawbridgeError) return broken(error.message);
    throw error;
  }
}

/**
 * A failure for people: who, what, and the way out.
 *
 * @param server its address
 * @param resource which objects, by the name RBAC has for them
 * @returns the same text for all resources where the failure is about none
 */
export function failureText(failure: Failure, server: string, resource: string): string {
  switch (failure.type) {
    case "broken":
      return printable(`${server}: ${failure.reason.slice(0, LONGEST_WORDS)}; it is tried again, what is known stays`);
    case "silent":
      return `${server}: ${resource}: no answer in time; it is tried again, what is known stays`;
    case "closed":
      return `${server}: ${resource}: the answer ended too early; it is tried again, what is known stays`;
    case "refused": {
      const words = failure.words === "" ? "" : ` (${failure.words.slice(0, LONGEST_WORDS)})`;
      return printable(`${server}: ${resource}: ${failure.status}${words}; ${wayOut(failure.status, resource)}`);
    }
  }
}

function wayOut(status: number, resource: string): string {
  switch (status) {
    case 401:
      return "the server does not know who asks: look at the token or certificate of policyd";
    case 403:
      return `expected the verbs list and watch on ${resource} in all namespaces: look at policyd's ClusterRole`;
    case 404:
      return "there is no such list; expected the address of a Kubernetes API server";
    case 429:
      return "the server has too many requests; it is asked again after the time that it says, what is known stays";
    default:
      return "it is tried again, what is known stays";
  }
}
