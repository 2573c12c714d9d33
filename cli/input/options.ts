import { type Command, InvalidArgumentError, Option } from "commander";
import { withReading } from "./reading.ts";
import { DEFAULT_REQUEST_TIMEOUT, parseRequestTimeout } from "./cluster/access.ts";
import { type NumberedPort, numberedPort } from "./port_text.ts";
import { keepSources } from "./programs/rendered_files.ts";

/**
 * Adds the options that say where the objects are (`InputOptions` of load.ts): files or the running cluster.
 *
 * @param isNeeded whether a command with these options reads anything at all
 */
export function withInput(command: Command, isNeeded: (options: object) => boolean = () => true): Command {
  command
    .option("-f, --filename <path...>", "files or directories with the objects; - is standard input")
    .option("-R, --recursive", "read the directories below the given ones, too", false)
    .option("--cluster", "read the running cluster instead", false);
  const isRead = (): boolean => command.getOptionValue("cluster") === true;
  return withAccess(withReading(withPrograms(command)), "--cluster", isRead).hook("preAction", () => {
    const isCluster = command.getOptionValue("cluster") === true;
    const hasFiles = command.getOptionValue("filename") !== undefined;
    if (isCluster && hasFiles) command.error("error: options '--filename' and '--cluster' exclude each other");
    if (isCluster || hasFiles || !isNeeded(command.opts())) return;
    command.error(
      "error: required option '-f, --filename <path...>' not specified; a running cluster is read with --cluster, " +
        "a kustomization with --kustomize and a chart with --helm",
    );
  });
}

/** Adds the options that choose a kubeconfig and a context in it. */
export function withKubeconfig(command: Command): Command {
  return command
    .option("--kubeconfig <path>", "how to reach the cluster; without it as kubectl finds it")
    .option("--context <name>", "a context of the kubeconfig; its current one without it");
}

/** Adds the option that says where the daemons are that kubectl asks (`daemonEntries` of input_schema.ts). */
export function withDaemons(command: Command): Command {
  return command.addOption(
    new Option("--drawbridge-namespace <name>", "the namespace of the daemons' DaemonSet")
      .argParser(readNamespace)
      .default("kube-system"),
  );
}

/**
 * Adds the options that choose a cluster, with the same names as in kubectl.
 *
 * @param reader what on the command line makes it read a cluster, for the message
 * @param isRead returns whether it reads one
 */
export function withAccess(command: Command, reader: string, isRead: () => boolean): Command {
  const withNamespace = command.addOption(
    new Option(
      "-n, --namespace <name>",
      "of objects and ends that name none; without it the kubeconfig's where a cluster is read, else default",
    ).argParser(readNamespace),
  );
  return withKubeconfig(withNamespace)
    .addOption(
      new Option("--request-timeout <duration>", "for one request, such as 30s or 2m; 0 means no limit")
        .argParser(readTimeout)
        .default(parseRequestTimeout(DEFAULT_REQUEST_TIMEOUT), DEFAULT_REQUEST_TIMEOUT),
    )
    .hook("preAction", () => {
      if (isRead()) return;
      const given = command.options.find((option) => {
        const isOfAccess = ["--kubeconfig", "--context", "--request-timeout"].includes(option.long ?? "");
        return isOfAccess && command.getOptionValueSource(option.attributeName()) === "cli";
      });
      if (given !== undefined)
        command.error(`error: option '${given.long}' is about a cluster; expected ${reader} too`);
    });
}

/**
 * Adds the options by which the user's own programs print the manifests (`renderOptions` of
 * programs/rendered_files.ts).
 */
export function withPrograms(command: Command): Command {
  return keepSources(command)
    .option("-k, --kustomize <path...>", "kustomizations, built by your kustomize or kubectl")
    .option("--helm <path...>", "charts, rendered by your helm")
    .option("--helm-values <path...>", "files with values for --helm")
    .hook("preAction", () => {
      const { helm, helmValues } = command.opts<{ readonly helm?: unknown; readonly helmValues?: unknown }>();
      if (helmValues !== undefined && helm === undefined) {
        command.error("error: option '--helm-values' is about a chart; expected --helm too");
      }
    });
}

function readNamespace(text: string): string {
  if (!/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(text)) {
    throw new InvalidArgumentError("expected the name of a namespace, such as shop.");
  }
  return text;
}

/** Adds the option that says how policyd is configured on the nodes. */
export function withConfiguration(command: Command): Command {
  return command.option("--config <path>", "policyd's configuration, as nodes have it; its defaults without it");
}

/** Reads the longest time to wait, in milliseconds; 0 means no limit. @throws InvalidArgumentError */
export function readTimeout(text: string): number {
  const milliseconds = parseRequestTimeout(text);
  if (milliseconds === undefined) {
    throw new InvalidArgumentError(`expected a time such as ${DEFAULT_REQUEST_TIMEOUT} or 1m30s, or 0 for no limit.`);
  }
  return milliseconds;
}

/** Reads ports as {@link readPorts} does, for an option that may occur several times. */
export function addPorts(text: string, before: readonly NumberedPort[] = []): readonly NumberedPort[] {
  return [...before, ...readPorts(text)];
}

/** Reads words separated by commas, for an option that may occur several times. */
export function addWords(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, ...text.split(",").map((word) => word.trim())];
}

/** Reads ports such as `80/TCP,53/UDP`; TCP is the default. */
export function readPorts(text: string): readonly NumberedPort[] {
  return text.split(",").map((part) => {
    const port = numberedPort(part.trim());
    if (port === undefined) {
      throw new InvalidArgumentError(`${JSON.stringify(part)}; expected ports such as 80/TCP,53/UDP.`);
    }
    return port;
  });
}
