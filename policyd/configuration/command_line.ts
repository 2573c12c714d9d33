import path from "node:path";
import { Command, Option } from "commander";
import type { Written } from "./configuration.ts";
import { API_VERSION, KIND } from "./schema.ts";

/** The parsed command line. */
export interface CommandLine {
  /** Path of the configuration file. */
  readonly config: string | undefined;
  /** For the lab: path of the network namespace to work in instead of the current one. */
  readonly networkNamespace: string | undefined;
  /** The configuration fields given as flags, by field name. */
  readonly flags: Readonly<Record<string, Written>>;
}

/** The flags that stand for a configuration field. */
export const FIELDS: readonly {
  readonly flag: string;
  readonly value: string;
  readonly field: string;
  readonly about: string;
}[] = [
  { flag: "--node-name", value: "<name>", field: "nodeName", about: "name of this machine's Node object" },
  {
    flag: "--objects",
    value: "<directory>",
    field: "objectsDirectory",
    about: "read Kubernetes objects from files here",
  },
  { flag: "--api-server", value: "<url>", field: "apiServer", about: "address of the API server" },
  { flag: "--kubeconfig", value: "<path>", field: "kubeconfig", about: "read objects from the cluster of this one" },
  { flag: "--socket", value: "<path>", field: "socketPath", about: "unix socket for the CNI plugin" },
  { flag: "--state-directory", value: "<path>", field: "stateDirectory", about: "where the attachment records are" },
  { flag: "--log-level", value: "<level>", field: "logLevel", about: "error, warn, info or debug" },
  { flag: "--log-format", value: "<format>", field: "logFormat", about: "text or json" },
  { flag: "--table-owner", value: "", field: "tableOwner", about: "let no other program change our tables" },
  { flag: "--bridge", value: "<name>", field: "bridge", about: "the bridge the pods are on" },
  { flag: "--pod-cidrs", value: "<prefixes>", field: "podCIDRs", about: "pod prefixes of this node, with commas" },
  {
    flag: "--encapsulation",
    value: "<when>",
    field: "encapsulation",
    about: "VXLAN to other nodes: auto, always, never",
  },
  { flag: "--drop-log", value: "", field: "dropLog", about: "log what NetworkPolicies drop" },
  { flag: "--flow-ledger", value: "", field: "flowLedger", about: "count the connections of this node's pods" },
  {
    flag: "--min-sync-period",
    value: "<duration|adaptive>",
    field: "minSyncPeriod",
    about: "least time between two changes of Services",
  },
  { flag: "--sync-period", value: "<duration>", field: "syncPeriod", about: "how often all is verified" },
  { flag: "--metrics-address", value: "<address>", field: "metricsAddress", about: "where metrics are served" },
];

/**
 * Reads the command line.
 *
 * @param args without the program's name
 * @param write receives the requested help or version text
 * @throws CommanderError for an unknown flag, and with exitCode 0 after the help or the version
 */
export function readCommandLine(args: readonly string[], version: string, write: (text: string) => void): CommandLine {
  const command = new Command("policyd")
    .description("Drawbridge's node daemon")
    .version(version)
    .option("--config <file>", `configuration file: ${API_VERSION}, ${KIND}; flags come before it`)
    .option("--network-namespace <path>", "work in this network namespace (for tests)")
    .allowExcessArguments(false)
    .exitOverride()
    .configureOutput({ writeOut: write, writeErr: () => undefined });
  const options = FIELDS.map(({ flag, value, about }) => new Option(`${flag} ${value}`.trim(), about));
  for (const option of options) command.addOption(option);
  const given = command.parse(args, { from: "user" }).opts<Readonly<Record<string, unknown>>>();
  const flags: Record<string, Written> = {};
  for (const [index, { flag, value: shape, field }] of FIELDS.entries()) {
    const value = given[options[index]?.attributeName() ?? ""];
    if (value !== undefined)
      flags[field] = { value: typeof value === "string" ? asField(shape, value) : value, where: flag };
  }
  return { config: text(given["config"]), networkNamespace: text(given["networkNamespace"]), flags };
}

/** Converts a flag's text to the value in the file: paths there are absolute, while flags accept relative ones. */
function asField(shape: string, given: string): unknown {
  if (shape === "<prefixes>") return given.split(",");
  const isPath = shape === "<path>" || shape === "<directory>";
  return isPath && given !== "" ? path.resolve(given) : given;
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
