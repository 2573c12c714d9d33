import { DrawbridgeError } from "../../../kernel/error.ts";
import type { End } from "../../cluster/find_end.ts";
import { nearestHint } from "../../../objects/nearest_names.ts";
import type { AskedPort, NumberedPort } from "../../input/port_text.ts";

interface NamedPort extends NumberedPort {
  readonly name: string;
}

/**
 * Returns the traffic that a question is about; a port name is looked up at the destination.
 *
 * @throws DrawbridgeError ERR_OBJECT for an unknown name, with the nearest ones, and for one of several ports
 */
export function trafficTo(
  end: End,
  port: AskedPort | undefined,
): NumberedPort | { readonly protocol: "ICMP" } | undefined {
  return port !== undefined && "name" in port ? portByName(end, port.name) : port;
}

/** Returns a destination's port by its name: a Service's own name for it, or the one in pods' containers. */
function portByName(end: End, name: string): NumberedPort {
  const ports = portsOf(end);
  const found = new Map(
    ports.filter((one) => one.name === name).map(({ protocol, port }) => [`${port}/${protocol}`, { protocol, port }]),
  );
  const [first, ...others] = found.values();
  if (first !== undefined && others.length === 0) return first;
  if (first !== undefined) {
    throw new DrawbridgeError(
      "ERR_OBJECT",
      `--port ${JSON.stringify(name)}: ${end.name} has ${[...found.keys()].join(" and ")} by this name; give the number`,
    );
  }
  const names = new Set(ports.map((one) => one.name).filter((one) => one !== ""));
  const expected = names.size > 0 ? [...names].slice(0, MOST_NAMES).join(", ") : "a number: its ports have no names";
  const hint = nearestHint(name, names, `expected ${expected}`);
  throw new DrawbridgeError(
    "ERR_OBJECT",
    `--port ${JSON.stringify(name)}: ${end.name} has no port of this name; ${hint}`,
  );
}

const MOST_NAMES = 10;

function portsOf(end: End): readonly NamedPort[] {
  if (end.type === "service") return end.service.ports;
  return end.hosts.flatMap((host) => (host.type === "pod" ? host.pod.ports : []));
}
