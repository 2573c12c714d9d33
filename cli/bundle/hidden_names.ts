import { createHash } from "node:crypto";

/** A pod's name and namespace. */
export interface PodName {
  readonly namespace: string;
  readonly name: string;
}

const NAMES = /([a-z0-9-]+\/)?([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)/g;

/**
 * Returns a function that replaces the names of pods in a text by hashes, one name by one hash. After `NAMESPACE/` each
 * name counts as a pod's, since a log also has those of pods that are gone.
 *
 * @param salt keeps guesses from being confirmed
 */
export function hiddenNames(pods: readonly PodName[], salt: string): (text: string) => string {
  const names = new Set(pods.map(({ name }) => name));
  const namespaces = new Set(pods.map(({ namespace }) => `${namespace}/`));
  const hidden = (name: string): string =>
    `hidden-${createHash("sha256").update(`${salt}/${name}`).digest("hex").slice(0, 12)}`;
  return (text) =>
    text.replaceAll(NAMES, (whole, before: string | undefined, name: string) => {
      if (names.has(name) || namespaces.has(before ?? "")) return `${before ?? ""}${hidden(name)}`;
      // A name in the cluster's DNS begins with a pod's.
      const parts = name.split(".");
      if (!parts.some((part) => names.has(part))) return whole;
      return `${before ?? ""}${parts.map((part) => (names.has(part) ? hidden(part) : part)).join(".")}`;
    });
}
