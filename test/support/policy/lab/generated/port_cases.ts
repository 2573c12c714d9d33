import { baseWith, DIRECTIONS, type GeneratedCase } from "./generated_case.ts";

const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;
const RANGES = [
  { port: 53, endPort: 80 },
  { port: 53, endPort: 84 },
] as const;

const NUMBERED: readonly object[] = [undefined, ...PROTOCOLS].flatMap((protocol) =>
  [undefined, 80, 81].map((port) => ({
    ...(protocol === undefined ? {} : { protocol }),
    ...(port === undefined ? {} : { port }),
  })),
);
const NAMED: readonly object[] = [80, 81].flatMap((port) =>
  PROTOCOLS.map((protocol) => ({ protocol, port: `serve-${port}-${protocol.toLowerCase()}` })),
);
const RANGED: readonly object[] = PROTOCOLS.flatMap((protocol) => RANGES.map((range) => ({ protocol, ...range })));
/** Ports with a name of another protocol, a name that no pod has, and a number that no pod serves. */
const PATHOLOGICAL: readonly object[] = [
  { protocol: "TCP", port: "serve-81-udp" },
  { protocol: "TCP", port: "serve-99-tcp" },
  { protocol: "TCP", port: 9999 },
];
const PAIRS: readonly (readonly [object, object])[] = [
  [{ port: 80 }, { port: 81 }],
  [{ port: 80 }, { protocol: "UDP", port: 80 }],
  [{ protocol: "UDP" }, { protocol: "SCTP", port: 81 }],
  [{ port: "serve-80-tcp" }, { protocol: "UDP", port: "serve-81-udp" }],
  [{ port: "serve-80-tcp" }, { port: 81 }],
  [
    { port: 53, endPort: 80 },
    { protocol: "SCTP", port: "serve-80-sctp" },
  ],
  [{ port: "serve-99-tcp" }, { protocol: "UDP", port: 81 }],
];

/** The 70 cases of every port by itself and some in pairs, in either direction. */
export const PORT_CASES: readonly GeneratedCase[] = DIRECTIONS.flatMap((direction) => {
  const single = [...NUMBERED, ...NAMED, ...RANGED, ...PATHOLOGICAL].map((port) => [port]);
  return [[], ...single, ...PAIRS].map((ports): GeneratedCase => ({
    group: "ports",
    name: `${direction}: ${JSON.stringify(ports)}`,
    policies: [baseWith(direction, { ports })],
  }));
});
