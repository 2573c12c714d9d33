import { type Daemon, DAEMON_LABEL } from "../input/programs/daemons.ts";

/** Something to collect: a command of kubectl, and the file for its output. */
export interface Item {
  readonly directory: string;
  readonly name: string;
  readonly args: readonly string[];
}

const MOST_LINES = 20_000;

/**
 * The program that reads, in a daemon's container, what no command prints: it works with the daemon of any version.
 * `/proc/net` and `/sys/class/net` are those of the node, whose network the container has.
 */
const READER = `
const fs = require("fs");
const attempt = (read) => { try { return read(); } catch (error) { return String(error); } };
const file = (path) => attempt(() => fs.readFileSync(path, "utf8").trimEnd());
const below = (path) => attempt(() => fs.readdirSync(path, { recursive: true, withFileTypes: true })
  .filter((one) => one.isFile()).map((one) => one.parentPath + "/" + one.name));
const each = (paths, read) => Array.isArray(paths) ? Object.fromEntries(paths.map((one) => [one, read(one)])) : paths;
const values = { links: () => {
  const of = (name) => each(["address", "mtu", "operstate", "ifindex", "iflink", "carrier_changes"], (one) => file("/sys/class/net/" + name + "/" + one));
  return { links: each(attempt(() => fs.readdirSync("/sys/class/net")), of), counters: file("/proc/net/dev"), addresses: require("os").networkInterfaces() };
}, routes: () => each(["route", "fib_trie", "ipv6_route", "arp"], (one) => file("/proc/net/" + one)),
attachments: () => each(below("/run/drawbridge/attachments"), file), failures: () => each(below("/run/drawbridge/failures"), file),
status: () => new Promise((resolve) => {
  let text = "";
  const socket = require("net").connect("/run/drawbridge/policyd.sock", () => socket.write('{"version":1,"type":"status"}\\n'));
  socket.setTimeout(5000, () => socket.destroy(new Error("no answer within 5 s"))).on("error", (error) => resolve(String(error)));
  socket.on("data", (chunk) => { text += chunk; if (text.includes("\\n")) { socket.end(); resolve(JSON.parse(text)); } });
}) };
Promise.resolve(values[process.argv[1]]()).then((value) => console.log(JSON.stringify(value, null, 2)));
`;
const METRICS = `fetch("http://127.0.0.1:9873/metrics", { signal: AbortSignal.timeout(20000) })
  .then((answer) => answer.text()).then((text) => process.stdout.write(text));`;
const CONFIG = "--config=/etc/drawbridge/policyd.yaml";

/** Returns what is collected once for the cluster. */
export function itemsOfCluster(directory: string, namespace: string): readonly Item[] {
  return [
    { directory, name: "versions.json", args: ["version", "--output=json"] },
    { directory, name: "nodes.txt", args: ["get", "nodes", "--output=wide"] },
    {
      directory,
      name: "installation.yaml",
      args: [
        "get",
        "daemonsets,configmaps,pods",
        `--namespace=${namespace}`,
        `--selector=${DAEMON_LABEL}`,
        "--output=yaml",
      ],
    },
  ];
}

/** Returns what is collected of a node. */
export function itemsOfNode(root: string, { namespace, name: pod, node }: Daemon): readonly Item[] {
  const directory = `${root}/${node}`;
  const exec = (...words: readonly string[]) => ["exec", `--namespace=${namespace}`, pod, "--", "node", ...words];
  const log = ["logs", `--namespace=${namespace}`, pod, `--tail=${MOST_LINES}`, "--timestamps"];
  const command = (...words: readonly string[]) => exec("cli/drawbridge.js", ...words, CONFIG);
  return [
    ...["status", "links", "routes", "attachments", "failures"].map((one) => ({
      directory,
      name: `${one}.json`,
      args: exec("-e", READER, one),
    })),
    { directory, name: "version.txt", args: exec("cli/drawbridge.js", "version") },
    { directory, name: "doctor.json", args: command("node", "doctor", "--output=json") },
    { directory, name: "policies.jsonl", args: command("node", "policies") },
    { directory, name: "metrics.txt", args: exec("-e", METRICS) },
    { directory, name: "log.txt", args: log },
  ];
}
