import type { EndpointSlice } from "./model.ts";

/** Returns the key of the Service whose endpoints a slice has; undefined for a slice of none. */
export function serviceKeyOf({ namespace, serviceName }: EndpointSlice): string | undefined {
  // `join` makes one flat string: V8 keeps the parts of a concatenated one.
  return serviceName === undefined ? undefined : [namespace, serviceName].join("/");
}
