import type { Operation, Place, Value } from "./operation.ts";

/** Formats a program for people: labels at the margin, one operation per line, and names of the image in quotes. */
export function listing(program: readonly Operation[]): string {
  return program.map((operation) => `${line(operation)}\n`).join("");
}

function line(operation: Operation): string {
  if (operation.kind === "label") return `${operation.name}:`;
  return `    ${step(operation)}`;
}

function step(operation: Exclude<Operation, { kind: "label" }>): string {
  switch (operation.kind) {
    case "initialStack":
      return `${operation.target} = initial stack`;
    case "set":
      return `${operation.target} = ${shown(operation.value)}`;
    case "add":
      return `${operation.target} += ${shown(operation.value)}`;
    case "subtract":
      return `${operation.target} -= ${shown(operation.value)}`;
    case "load":
      return `${operation.target} = ${memory(operation.from, operation.width)}`;
    case "store":
      return `${memory(operation.to, operation.width)} = ${operation.value}`;
    case "jump":
      return `go to ${operation.to}`;
    case "jumpIf":
      return `if ${operation.left} ${operation.comparison} ${shown(operation.right)} go to ${operation.to}`;
    case "system":
      return `result = ${operation.call}(${operation.arguments.map(shown).join(", ")})`;
  }
}

function shown(value: Value): string {
  if (typeof value === "object") return `"${value.symbol}"${further(value.offset)}`;
  return String(value);
}

/** Formats a place in memory: brackets mean its contents, `.8` eight bytes of them. */
function memory(place: Place, width: number): string {
  const base = "symbol" in place ? `"${place.symbol}"` : place.register;
  return `[${base}${further(place.offset)}].${width}`;
}

function further(offset: number): string {
  return offset === 0 ? "" : ` + ${offset}`;
}
