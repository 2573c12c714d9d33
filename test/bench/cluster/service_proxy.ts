import type { LabNamespace } from "../../lab/namespace.ts";
import type { Access } from "./control_plane.ts";

/** A program that serves Services on a node: policyd or kube-proxy. */
export interface ServiceProxy {
  readonly name: "policyd" | "kube-proxy";
  /** Its node, which no other program uses. */
  readonly node: LabNamespace;
  /**
   * The map or set with one element for each Service port in IPv4, as `nft list` names it: kind, family, table, name.
   */
  readonly frontends: readonly [string, string, string, string];
  /** Starts the program on a node without rules. It watches the API server until it is ended. */
  start(access: Access): RunningProxy;
}

export interface RunningProxy {
  readonly pid: number;
  /** Returns its log so far. */
  log(): string;
  /** Ends the program without a chance to clean up. */
  end(): Promise<void>;
}

/** Returns the number of UDP ports of Services that the kernel has; 0 while the table or the map does not exist. */
export function frontendsInKernel({ node, frontends }: ServiceProxy): number {
  try {
    const [kind, ...names] = frontends;
    return node.exec("nft", ["list", kind, ...names]).split(" . udp . ").length - 1;
  } catch {
    return 0;
  }
}
