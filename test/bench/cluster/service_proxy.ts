import type { LabNamespace } from "../../lab/namespace.ts";
import type { Access } from "./control_plane.ts";

/** A program that serves Services on a node: policyd or kube-proxy. */
export interface ServiceProxy {
  readonly name: "policyd" | "kube-proxy";
  /** Its node, which no other program uses. */
  readonly node: LabNamespace;
  /** A map or set that has one element for each Service port in IPv4, as `nft list` names it: kind, family, table, name. */
  readonly frontends: readonly [string, string, string, string];
  /** Starts it on a node without rules. It follows the API server until it is ended. */
  start(access: Access): RunningProxy;
}

export interface RunningProxy {
  readonly pid: number;
  /** Returns its log so far. */
  log(): string;
  /** Ends it without a chance to clean up. */
  end(): Promise<void>;
}

/** Returns the number of UDP ports of Services that the kernel has; 0 while the table or the map is not there. */
export function frontendsInKernel({ node, frontends }: ServiceProxy): number {
  try {
    const [kind, ...names] = frontends;
    return node.exec("nft", ["list", kind, ...names]).split(" . udp . ").length - 1;
  } catch {
    return 0;
  }
}
