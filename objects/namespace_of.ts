/** Returns the namespace in an object's key; empty for an object of a kind without namespaces. */
export function namespaceOf(key: string): string {
  const slash = key.indexOf("/");
  return slash < 0 ? "" : key.slice(0, slash);
}
