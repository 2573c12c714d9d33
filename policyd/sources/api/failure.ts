import { attempt } from "../../../kernel/error.ts";
import { printable } from "../../../objects/printable.ts";

/** The reason why a request failed or ended. */
export type Failure =
  /** The server refused, by the status of its answer or, in a watch, by an event. */
  | {
      readonly type: "refused";
      readonly status: number;
      /** The server's own message; empty without one. */
      readonly words: string;
      /** The seconds for which the server wants no request. */
      readonly retryAfter: number | undefined;
      readonly isEvent: boolean;
    }
  /** There was no answer, or one that broke off or cannot be understood. */
  | { readonly type: "broken"; readonly reason: string }
  /** Nothing came for too long: the connection may be dead. */
  | { readonly type: "silent" }
  /** The answer ended without an error. */
  | { readonly type: "closed" };

/** The largest number of characters of the server's message that are reported. */
const LONGEST_WORDS = 300;

export function broken(reason: string): Failure {
  return { type: "broken", reason };
}

/** Returns the result of `read`, or a failure for its DrawbridgeError. @throws any other error, which is a bug */
export function readOrFail<T>(read: () => T): T | Failure {
  return attempt<T | Failure>(read, ({ message }) => broken(message));
}

/**
 * Describes a failure for people: the server, the cause, and the way out.
 *
 * @param server the server's address
 * @param resource the resource's name in RBAC
 * @returns the same text for all resources where the failure does not concern a single one
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
