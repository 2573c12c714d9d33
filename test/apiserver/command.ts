import type { Asked, Features } from "./api.ts";
import type { Definition } from "./definitions.ts";
import type { PlannedFault, WatchFault } from "./faults.ts";
import type { RawObject } from "./storage.ts";

/** What the process of the API server is told; it answers each. */
export type Command =
  /** Begins to serve, by TLS where there is a certificate; the reply has the port. */
  | {
      readonly type: "listen";
      readonly address: string;
      readonly port: number;
      readonly certificate?: { readonly certificate: string; readonly key: string };
    }
  /** Nobody listens any more, and all connections are reset; "listen" begins anew. */
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
  /** The objects of a list, as they are stored. */
  | { readonly type: "read"; readonly path: string }
  /** The requests so far. */
  | { readonly type: "asked" };

export interface Reply {
  readonly id: number;
  readonly port?: number;
  readonly objects?: readonly RawObject[];
  readonly asked?: readonly Asked[];
}

/** A command on the way. */
export interface Envelope {
  readonly id: number;
  readonly command: Command;
}
