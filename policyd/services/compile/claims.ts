import type { Scalar } from "../../../kernel/nftables/data_type.ts";
import type { KeyField } from "../../../kernel/nftables/expression.ts";
import type { Protocol } from "../../cluster/model.ts";
import type { Claim } from "../../dataplane/claim.ts";
import { INET_TABLE } from "../../node/table_part.ts";
import type { Frontend } from "./frontends.ts";
import type { FrontendKind, RuleFamily } from "./frontend_space.ts";

/** A claim of one element. */
export function claim(set: string, key: readonly KeyField[], data?: readonly Scalar[], comment?: string): Claim {
  return {
    table: INET_TABLE,
    set,
    element: { key, ...(data === undefined ? {} : { data }), ...(comment === undefined ? {} : { comment }) },
  };
}

/** In which sets a frontend's elements are. */
export function kindOf(frontend: Frontend, family: RuleFamily): FrontendKind {
  return { family, space: frontend.type === "node port" ? "port" : "service" };
}

/** A frontend as the key of those sets. */
export function keyOf(frontend: Frontend, protocol: Protocol): readonly Scalar[] {
  const address = frontend.type === "node port" ? [] : [frontend.address];
  return [...address, protocol.toLowerCase(), frontend.port];
}
