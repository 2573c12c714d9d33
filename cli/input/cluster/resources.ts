import type { Resource as ApiResource } from "../../../policyd/source/api/resources.ts";
import { RESOURCES as API_RESOURCES } from "../../../policyd/source/api/resources.ts";

/** A kind of objects that the command line asks the API server for. */
export interface Resource extends ApiResource {
  /** What an invalid one would leave open or closed cannot be guessed: there is no answer then. */
  readonly isPolicy: boolean;
}

/** All that decides who reaches whom, in the order in which it is read. */
export const RESOURCES: readonly Resource[] = API_RESOURCES.flatMap((resource) =>
  resource.kind === "ServiceCIDR" ? [] : [{ ...resource, isPolicy: resource.kind.endsWith("Policy") }],
);
