import type { LabNamespace } from "../lab/namespace.ts";

/** One object in the output of `ip -j`, `bridge -j` or `tc -j`. */
export type Printed = Readonly<Record<string, unknown>>;

/** Returns what iproute2 lists in a namespace: the kernel's state, read without our code. */
export function iproute(namespace: LabNamespace, program: "ip" | "bridge" | "tc", command: string): readonly Printed[] {
  const text = namespace.exec(program, ["-j", "-d", ...command.split(" ")]).trim();
  const printed: unknown = text === "" ? [] : JSON.parse(text);
  if (!Array.isArray(printed)) throw new Error(`${program} ${command} printed no list: ${text}`);
  return printed.filter(isPrinted);
}

/** Returns the only object that `command` prints. */
export function iprouteOne(namespace: LabNamespace, program: "ip" | "bridge" | "tc", command: string): Printed {
  const printed = iproute(namespace, program, command);
  const [only] = printed;
  if (only === undefined || printed.length > 1)
    throw new Error(`${program} ${command} printed ${printed.length} objects; expected 1`);
  return only;
}

/** Returns a member that is an object itself ("linkinfo"), or an empty object if it is missing. */
export function inner(printed: Printed, ...path: readonly string[]): Printed {
  return path.reduce<Printed>((object, name) => {
    const value = object[name];
    return isPrinted(value) ? value : {};
  }, printed);
}

/** Returns only the named members, to compare them with the requested ones. */
export function pick(printed: Printed, ...names: readonly string[]): Printed {
  return Object.fromEntries(names.map((name) => [name, printed[name]]));
}

function isPrinted(value: unknown): value is Printed {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
}
