import type { Asked, Features } from "./api.ts";
import type { Definition } from "./definitions.ts";
import type { PlannedFault, WatchFault } from "./faults.ts";
import type { RawObject } from "./storage.ts";

/** The commands to the process of the API server, which answers each. */
export type Command =
  /** Begins to serve, by TLS if there is a certificate; the reply has the port. */
  | {
      readonly type: "listen";
      readonly address: string;
      readonly port: number;
      readonly certificate?: { readonly certificate: string; readonly key: string };
    }
  /** Stops listening and resets all connections; "listen" begins again. */
  | { readonly type: "down" }
  | { readonly type: "features"; readonly features: Partial<Features> }
  /** Stores objects; those with the member `isGone` are removed. */
  | { readonly type: "apply"; readonly objects: readonly RawObject[] }
  | { readonly type: "plan"; readonly faults: readonly PlannedFault[] }
  | { readonly type: "heal" }
  | { readonly type: "strike"; readonly fault: WatchFault; readonly path?: string }
  | { readonly type: "bookmark" }
  | { readonly type: "compact" }
  | { readonly type: "serve"; readonly path: string; readonly isServed: boolean }
  | { readonly type: "define"; readonly definition: Definition }
  /** Returns the objects of a list, as they are stored. */
  | { readonly type: "read"; readonly path: string }
  /** Returns the requests so far. */
  | { readonly type: "asked" };

export interface Reply {
  readonly id: number;
  readonly port?: number;
  readonly objects?: readonly RawObject[];
  readonly asked?: readonly Asked[];
}

/** A command in transit. */
export interface Envelope {
  readonly id: number;
  readonly command: Command;
}
