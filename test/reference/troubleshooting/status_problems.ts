import type { AnyNode } from "acorn";
import { globSync, readFileSync } from "node:fs";
import { PROBLEM_CODES } from "../../../policyd/problems/problem.ts";
import { below, constantsAmong, nameOf, nodesIn, termsOf, textsOf } from "./texts.ts";

/** Returns the problems of the status that the components' methods `problems` state in words, sorted. */
export function statusProblems(): readonly string[] {
  const files = globSync("policyd/**/*.ts");
  return [...new Set(files.flatMap((file) => problemsIn(readFileSync(file, "utf8"))))].toSorted();
}

/** Returns the texts in the methods `problems` of a file. */
function problemsIn(source: string): readonly string[] {
  const nodes = nodesIn(source);
  const constants = constantsAmong(nodes);
  const found = nodes.flatMap(({ node: method }) => {
    const isMethod = method.type === "MethodDefinition" || (method.type === "Property" && method.method);
    if (!isMethod || !/^problems(ByKind)?$/.test(nameOf(method.key) ?? "")) return [];
    const own = below(method.value, []);
    return own.flatMap(({ node, around }) => {
      if (!isText(node) || around.some(isText)) return [];
      const before = own.filter(({ node: { start } }) => start < node.start);
      return (
        textsOf(
          node,
          constantsAmong(before, (name) => (/^[A-Z_]+$/.test(name) ? constants(name) : undefined)),
        ) ?? []
      );
    });
  });
  // A text that is a part of another one is not a problem by itself.
  const codes: readonly string[] = PROBLEM_CODES;
  const texts = found.filter((text) => /\p{L}{3}/u.test(text) && !codes.includes(text));
  return texts.filter((text) => !texts.some((other) => other !== text && other.includes(text)));
}

/** Whether a node is a string, a template or a sum of these. */
function isText(node: AnyNode): boolean {
  if (node.type === "BinaryExpression") return termsOf(node).length > 1 && termsOf(node).every(isText);
  return node.type === "TemplateLiteral" || (node.type === "Literal" && typeof node.value === "string");
}
