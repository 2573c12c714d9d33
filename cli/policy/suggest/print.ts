import { DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import { Document, isNode } from "yaml";
import { printable } from "../../../objects/printable.ts";
import type { Suggestion } from "./suggest.ts";

const PEERS = { ingress: "from", egress: "to" } as const;

/** Returns the policies as YAML, with a comment at each peer that an object asks for. */
export function policiesText({ policies, comments }: Pick<Suggestion, "policies" | "comments">): string {
  const documents = policies.map((policy) => {
    const document = new Document(policy, { aliasDuplicateObjects: false });
    for (const direction of DIRECTIONS) {
      for (const [i, rule] of (policy.spec[direction] ?? []).entries()) {
        for (const [j, peer] of (rule[PEERS[direction]] ?? []).entries()) {
          const node = document.getIn(["spec", direction, i, PEERS[direction], j], true);
          const lines = comments.get(peer);
          if (isNode(node) && lines !== undefined)
            node.commentBefore = lines.map((line) => ` asked for by ${printable(line)}`).join("\n");
        }
      }
    }
    return document.toString();
  });
  return documents.join("---\n");
}
