import { globSync, readFileSync } from "node:fs";
import type { AnyNode, CallExpression } from "acorn";
import { constantsAmong, initialValue, type Lookup, nameOf, nodesIn, type Placed, textsOf } from "./texts.ts";

/** Returns all warnings and errors of the daemon's log, sorted. @throws Error as {@link messagesIn} */
export function logMessages(): readonly string[] {
  const files = globSync("policyd/**/*.ts");
  const words = files.flatMap((file) => [...messagesIn(file, readFileSync(file, "utf8"))]);
  return [...new Set(words)].toSorted();
}

/**
 * Yields the warnings and errors that a file logs: literals, constants of the file, what callers pass to a function that
 * logs its parameter, and the message of each list of problems (NodeProblems).
 *
 * @throws Error naming the place of any other message
 */
export function* messagesIn(file: string, source: string): Generator<string> {
  const nodes = nodesIn(source);
  for (const { node, around } of nodes) {
    if (isWarning(node)) yield* textsIn(node, around);
    if (node.type === "NewExpression" && nameOf(node.callee) === "NodeProblems")
      yield* textsAt(node.arguments[2] ?? node, constantsAmong(nodes));
  }

  function textsIn(call: AnyNode, around: readonly AnyNode[]): readonly string[] {
    const [message = call] = call.type === "CallExpression" ? call.arguments : [];
    const constants = constantsAmong(nodes);
    // Of an object of messages any one may be logged.
    if (message.type === "MemberExpression" && message.computed) {
      const table = initialValue(nodes, nameOf(message.object) ?? "");
      const members = table?.type === "ObjectExpression" ? table.properties : [];
      return members.flatMap((one) => (one.type === "Property" ? (textsOf(one.value, constants) ?? []) : []));
    }
    const logging = around.map(functionOf).find((one) => one !== undefined);
    return textsAt(message, (name) => {
      const place = logging?.parameters.indexOf(name) ?? -1;
      if (place < 0) return constants(name);
      return callsOf(nodes, logging?.name).flatMap(({ arguments: values }) => {
        const value = values[place];
        return (value && textsOf(value, constants)) ?? [];
      });
    });
  }

  function textsAt(node: AnyNode, lookup: Lookup): readonly string[] {
    const texts = textsOf(node, lookup);
    if (texts !== undefined) return texts;
    const line = source.slice(0, node.start).split("\n").length;
    const words = source.slice(node.start, node.end);
    throw new Error(
      `${file}:${line}: the message ${words} is not a text; expected a literal or a constant of the file`,
    );
  }
}

/** Whether a node is a call that logs a warning or an error. */
function isWarning(node: AnyNode): boolean {
  if (node.type !== "CallExpression" || node.callee.type !== "MemberExpression") return false;
  const { object, property } = node.callee;
  const logger = nameOf(object.type === "MemberExpression" ? object.property : object);
  return logger === "logger" && /^(warn|error)$/.test(nameOf(property) ?? "");
}

/** Returns the name and the parameters of a named function or a method. */
function functionOf(
  node: AnyNode,
): { readonly name: string | undefined; readonly parameters: readonly (string | undefined)[] } | undefined {
  const [id, value] =
    node.type === "MethodDefinition"
      ? [node.key, node.value]
      : node.type === "VariableDeclarator"
        ? [node.id, node.init]
        : node.type === "FunctionDeclaration"
          ? [node.id, node]
          : [];
  if (value === null || value === undefined || !("params" in value)) return undefined;
  const parameters = value.params.map((one) => nameOf(one.type === "AssignmentPattern" ? one.left : one));
  return { name: nameOf(id), parameters };
}

/** Returns the calls of a function or a method by the source that defines it. */
function callsOf(nodes: readonly Placed[], name: string | undefined): readonly CallExpression[] {
  return nodes.flatMap(({ node }) => {
    if (node.type !== "CallExpression") return [];
    const { callee } = node;
    const isOwn = callee.type === "MemberExpression" && callee.object.type === "ThisExpression";
    return nameOf(isOwn ? callee.property : callee) === name ? [node] : [];
  });
}
