import * as v from "valibot";
import { CLUSTER_DOMAIN, comparableName } from "../../objects/domain_name.ts";
import { isDirectoryPath, isInterfaceName } from "../../ipam/owner.ts";
import { attempt } from "../../kernel/error.ts";
import { type Address, familyOf, tryParseAddress } from "../../kernel/ip/address.ts";
import { type Cidr, hasHostBits, parseCidr } from "../../kernel/ip/cidr.ts";
import { LOG_FORMATS } from "../log/line.ts";
import { LEVELS } from "../log/logger.ts";
import { PROTOCOLS } from "../../objects/protocol.ts";
import { chain, isPluginName } from "./chain.ts";
import { parseDuration } from "../lib/duration.ts";

export const API_VERSION = "drawbridge.dev/v1alpha1";
export const KIND = "PolicydConfiguration";

/** Ports of programs on a cluster's nodes: etcd, the kubelet, kube-proxy or policyd, control plane controllers. */
const PROTECTED_PORTS = [2379, 2380, 2381, 10248, 10249, 10250, 10256, 10257, 10258, 10259].map(
  (port) => `${port}/TCP`,
);

/** Length of sun_path in a unix socket's address, without its NUL. */
const LONGEST_SOCKET_PATH = 107;
const ONE_BIT = "one bit of 32, such as 0x10000000";

const encoder = new TextEncoder();

/** How packets get to pods of other nodes. */
export const ENCAPSULATIONS = ["auto", "always", "never"] as const;

export type Encapsulation = (typeof ENCAPSULATIONS)[number];

/** Parses the address of an API server; undefined for anything but http(s) with a host. */
export function tryUrl(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  return isWeb && url.username === "" && url.search === "" && url.hash === "" ? url : undefined;
}

/** The name of our CNI configuration; runtimes use the first file of the directory. */
export const CONFIGURATION_FILE = "10-drawbridge.conflist";

/** The names that runtimes accept for configurations (libcni, ConfFiles). */
export const CONFIGURATION_NAME = /\.(conf|conflist|json)$/;

// Every message of this schema is an expectation: the text that follows "expected" in the error.

const path = v.pipe(
  v.string('an absolute path without ".."'),
  v.check((text) => text.length > 1 && isDirectoryPath(text), 'an absolute path without ".."'),
);

const socketPath = v.pipe(
  path,
  v.check(
    (text) => encoder.encode(text).length <= LONGEST_SOCKET_PATH,
    `at most ${LONGEST_SOCKET_PATH} bytes, which is all a unix socket's address holds`,
  ),
);

const nodeName = v.pipe(
  v.string("the name of this machine's Node object; give it as --node-name or nodeName"),
  v.regex(/^(?=.{1,253}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/, "the name of this machine's Node object"),
);

const bridge = v.pipe(
  v.string("an interface name"),
  v.check(isInterfaceName, 'an interface name of 1 to 15 bytes without slash, colon, "%" or white space'),
);

const apiServer = parsed(tryUrl, 'an address such as "https://192.0.2.1:6443"');

const duration = parsed(parseDuration, "a duration such as 1s, 500ms or 1m30s");

const batchPeriod = v.union([v.literal("adaptive"), duration], 'a duration such as 500ms, 0s for none, or "adaptive"');

/** Shorter periods would make the daemon do nothing but resync. */
const SHORTEST_SYNC_PERIOD = 100;
const verificationPeriod = v.pipe(
  duration,
  v.check((milliseconds) => milliseconds >= SHORTEST_SYNC_PERIOD, `a duration of ${SHORTEST_SYNC_PERIOD}ms at least`),
);

const podCidr = parsed(tryNetwork, 'a prefix without host bits such as "10.244.1.0/24"');

const nodePortAddress = v.union(
  [v.literal("primary"), parsed(tryNetwork, 'a prefix without host bits or "primary"')],
  'a prefix without host bits such as "10.0.0.0/8", or "primary"',
);

const LISTEN = 'an IP address with a port such as "127.0.0.1:9873" or "[::]:9873", or "" for none';

/** An empty text turns the server off. */
const listenAddress = v.pipe(
  v.string(LISTEN),
  v.check((text) => text === "" || tryListenAddress(text) !== undefined, LISTEN),
  v.transform(tryListenAddress),
);

/** "none" for an empty text; where undefined, the other fields decide. */
const healthAddress = v.pipe(
  v.string(LISTEN),
  v.check((text) => text === "" || tryListenAddress(text) !== undefined, LISTEN),
  v.transform((text) => tryListenAddress(text) ?? ("none" as const)),
);

const markBit = v.pipe(
  v.union([v.number(), v.pipe(v.string(), v.regex(/^0x[0-9a-fA-F]{1,8}$/), v.transform(Number))], ONE_BIT),
  v.check(isOneBit, ONE_BIT),
);

const markBits = v.pipe(
  v.object(
    {
      masquerade: v.optional(markBit, 0x1000_0000),
      bridged: v.optional(markBit, 0x2000_0000),
    },
    "an object with masquerade and bridged",
  ),
  v.check(({ masquerade, bridged }) => masquerade !== bridged, "two different bits"),
);

const nodeLocalAddress = parsed(tryParseAddress, 'an IP address such as "169.254.20.10"');

const PORT = 'a port with its protocol such as "9100/TCP"';
const protectedPort = parsed(tryPort, PORT);

const SOCKET = 'an IP address with port and protocol such as "192.0.2.1:53/UDP" or "[2001:db8::1]:443/TCP"';
const protectedSocket = parsed(trySocket, SOCKET);

const connectionLimit = wholeNumber("a number of connections, 0 for no limit");

const FILE_NAME = 'the name of a file that runtimes read, such as "00-multus.conf", without a directory';
const configurationName = v.pipe(
  v.string(FILE_NAME),
  v.check((text) => isPluginName(text) && CONFIGURATION_NAME.test(text) && text !== CONFIGURATION_FILE, FILE_NAME),
);

const DOMAIN = 'a domain in lower case such as "cluster.local"';
const domain = v.pipe(
  v.string(DOMAIN),
  v.check((text) => comparableName(`any.${text}`) === `any.${text}`, DOMAIN),
);

const logGroup = wholeNumber("a number from 0 to 65535", 65_535);
const count = wholeNumber("a whole number from 0 to 16777216", 16_777_216);

const MEBIBYTES = "a whole number of mebibytes from 4 to 2047, 0 for no limit";
const fragmentMemory = v.pipe(
  v.number(MEBIBYTES),
  v.check((value) => value === 0 || (Number.isInteger(value) && value >= 4 && value < 2048), MEBIBYTES),
);

/** Every field of the configuration, by its name in the file, with its default. */
export const entries = {
  nodeName,
  objectsDirectory: v.optional(path),
  apiServer: v.optional(apiServer),
  kubeconfig: v.optional(path),
  kubeletKubeconfig: v.optional(path),
  serviceAccountDirectory: v.optional(path, "/var/run/secrets/kubernetes.io/serviceaccount"),
  socketPath: v.optional(socketPath, "/run/drawbridge/policyd.sock"),
  stateDirectory: v.optional(path, "/run/drawbridge"),
  logLevel: v.optional(v.picklist(LEVELS, `one of ${LEVELS.join(", ")}`), "info"),
  logFormat: v.optional(v.picklist(LOG_FORMATS, `one of ${LOG_FORMATS.join(", ")}`), "text"),
  tableOwner: v.optional(v.boolean("true or false"), false),
  markBits: v.optional(markBits, {}),
  bridge: v.optional(bridge, "drawbridge0"),
  podCIDRs: v.optional(v.array(podCidr, "a list of prefixes"), []),
  serviceCIDRs: v.optional(v.array(podCidr, "a list of prefixes"), []),
  encapsulation: v.optional(v.picklist(ENCAPSULATIONS, `one of ${ENCAPSULATIONS.join(", ")}`), "auto"),
  installCni: v.optional(v.boolean("true or false"), false),
  cniSourceDirectory: v.optional(path, "/opt/drawbridge/cni"),
  cniBinDirectory: v.optional(path, "/opt/cni/bin"),
  cniConfDirectory: v.optional(path, "/etc/cni/net.d"),
  cniChain: v.optional(chain, []),
  cniPrimary: v.optional(configurationName),
  clearNetworkUnavailable: v.optional(v.boolean("true or false"), false),
  masquerade: v.optional(v.boolean("true or false"), true),
  nonMasqueradeCIDRs: v.optional(v.array(podCidr, "a list of prefixes"), []),
  conntrackMaxPerCore: v.optional(count, 32_768),
  conntrackMin: v.optional(count, 131_072),
  conntrackEstablishedTimeout: v.optional(duration, "24h"),
  conntrackCloseWaitTimeout: v.optional(duration, "1h"),
  fragmentMemory: v.optional(fragmentMemory, 512),
  services: v.optional(v.boolean("true or false"), true),
  nodePortAddresses: v.optional(v.array(nodePortAddress, 'a list of prefixes and "primary"'), []),
  protectedPorts: v.optional(v.array(protectedPort, "a list of ports"), [...PROTECTED_PORTS]),
  protectedSockets: v.optional(v.array(protectedSocket, "a list of sockets"), []),
  externalIPsTakePorts: v.optional(v.boolean("true or false"), false),
  refuseExternalIPs: v.optional(v.boolean("true or false"), false),
  tcpReset: v.optional(v.boolean("true or false"), false),
  dropInvalid: v.optional(v.boolean("true or false"), true),
  policies: v.optional(v.boolean("true or false"), true),
  policePodToOwnNode: v.optional(v.boolean("true or false"), false),
  nodeLocalDNS: v.optional(v.array(nodeLocalAddress, "a list of IP addresses"), []),
  dnsServers: v.optional(v.array(nodeLocalAddress, "a list of IP addresses"), []),
  clusterDomain: v.optional(domain, CLUSTER_DOMAIN),
  answerLogGroup: v.optional(logGroup, 108),
  connectionLimit: v.optional(connectionLimit),
  policyReset: v.optional(v.boolean("true or false"), false),
  dropLog: v.optional(v.boolean("true or false"), false),
  dropLogGroup: v.optional(logGroup, 107),
  flowLedger: v.optional(v.boolean("true or false"), false),
  flowLedgerDirectory: v.optional(path, "/var/lib/cni/drawbridge-flows"),
  minSyncPeriod: v.optional(batchPeriod, "adaptive"),
  syncPeriod: v.optional(verificationPeriod, "30s"),
  metricsAddress: v.optional(listenAddress, "127.0.0.1:9873"),
  endpointMetrics: v.optional(v.boolean("true or false"), true),
  healthAddress: v.optional(healthAddress),
};

/** Parses all of {@link entries}; periods result in milliseconds. */
export const configurationSchema = v.pipe(
  v.object(entries),
  v.forward(
    v.partialCheck(
      [["minSyncPeriod"], ["syncPeriod"]],
      ({ minSyncPeriod, syncPeriod }) => minSyncPeriod === "adaptive" || minSyncPeriod <= syncPeriod,
      "at least minSyncPeriod",
    ),
    ["syncPeriod"],
  ),
  v.forward(
    v.partialCheck(
      [["flowLedger"], ["policies"]],
      ({ flowLedger, policies }) => !flowLedger || policies,
      "false where policies is false: flows have the names by which policies know their ends",
    ),
    ["flowLedger"],
  ),
  v.forward(
    v.partialCheck(
      [["connectionLimit"], ["policies"]],
      ({ connectionLimit: most = 0, policies }) => most === 0 || policies,
      "0 or none where policies is false: the rules of policies enforce it",
    ),
    ["connectionLimit"],
  ),
  v.forward(
    v.partialCheck(
      [["answerLogGroup"], ["dropLogGroup"]],
      ({ answerLogGroup, dropLogGroup }) => answerLogGroup !== dropLogGroup,
      "another number than answerLogGroup (107 and 108 where they are not given)",
    ),
    ["dropLogGroup"],
  ),
);

/** Returns the member names of an object field; undefined for a field that is not an object. */
export function membersOf(field: string): readonly string[] | undefined {
  return field === "markBits" ? Object.keys(markBits.pipe[0].entries) : undefined;
}

function isOneBit(value: number): boolean {
  return Number.isInteger(value) && value >= 1 && value <= 0x8000_0000 && Number.isInteger(Math.log2(value));
}

function tryListenAddress(text: string): { readonly address: Address; readonly port: number } | undefined {
  const [, ipv6, ipv4, digits] = /^(?:\[([^\]]+)\]|([^:]+)):([1-9]\d{0,4})$/.exec(text) ?? [];
  const address = tryParseAddress(ipv6 ?? ipv4 ?? "");
  const port = Number(digits);
  if (address === undefined || port > 65_535) return undefined;
  return familyOf(address) === (ipv6 === undefined ? 4 : 6) ? { address, port } : undefined;
}

function tryPort(text: string): { readonly protocol: (typeof PROTOCOLS)[number]; readonly port: number } | undefined {
  const [, digits = "", name] = /^([1-9]\d{0,4})\/([A-Z]{3,4})$/.exec(text) ?? [];
  const [protocol, port] = [PROTOCOLS.find((one) => one === name), Number(digits)];
  return protocol === undefined || port > 65_535 ? undefined : { protocol, port };
}

function trySocket(
  text: string,
): (NonNullable<ReturnType<typeof tryPort>> & { readonly address: Address }) | undefined {
  const [, where = "", protocol = ""] = /^(.*)\/([A-Z]{3,4})$/.exec(text) ?? [];
  const place = tryListenAddress(where);
  const port = place && tryPort(`${place.port}/${protocol}`);
  return place === undefined || port === undefined ? undefined : { ...port, address: place.address };
}

function tryNetwork(text: string): Cidr | undefined {
  const cidr = attempt<Cidr | undefined>(
    () => parseCidr(text),
    () => undefined,
  );
  return cidr === undefined || hasHostBits(cidr) ? undefined : cidr;
}

function wholeNumber(expectation: string, most = Infinity) {
  return v.pipe(
    v.number(expectation),
    v.integer(expectation),
    v.minValue(0, expectation),
    v.maxValue(most, expectation),
  );
}

/** Returns a schema for texts that `parse` accepts, with its result as the value. */
function parsed<T>(parse: (text: string) => T | undefined, expectation: string) {
  return v.pipe(
    v.string(expectation),
    v.rawTransform<string, T>(({ dataset, addIssue, NEVER }) => {
      const value = parse(dataset.value);
      if (value !== undefined) return value;
      addIssue({ message: expectation });
      return NEVER;
    }),
  );
}
