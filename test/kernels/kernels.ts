/** A kernel to boot: the newest one that a Debian suite has for a processor, by QEMU or as User Mode Linux. */
export interface Kernel {
  /** How the command line and the table call it. */
  readonly name: string;
  /** As `process.arch`. */
  readonly architecture: "x64" | "arm64";
  readonly suite: string;
  /** The package that depends on the newest kernel's, or has the sources for User Mode Linux. */
  readonly debianPackage: string;
  /** The options that User Mode Linux is built without. */
  readonly without?: readonly string[];
  /** A further word of its command line. */
  readonly parameter?: string;
  /** The test files that it runs, in this order: the titles of those of guest/ begin with their subject. */
  readonly files: readonly string[];
}

const inGuest = (...names: readonly string[]): readonly string[] =>
  names.map((name) => `test/kernels/guest/${name}.ts`);

const NODES = inGuest("smoke", "image", "uplinks");
/** On the oldest and the newest kernel, and with larger pages; everywhere else the smoke test has them loaded. */
const PROGRAMS = ["test/kernel/bridge_bypass.test.ts", "test/integration/attacks/offloaded_checksum.test.ts"];
/** In a kernel that has packet queues, which this machine's may lack. */
const NAMES = [...inGuest("answer_queue"), "test/integration/policies/verdicts/domain_names.test.ts"];
const DEMO = inGuest("demo");
const REFUSAL = inGuest("refusal");

const NEWEST = { architecture: "x64", debianPackage: "linux-image-cloud-amd64" } as const;
const USER_MODE_LINUX = { architecture: "x64", suite: "bookworm", debianPackage: "linux-source-6.1" } as const;

/** The longest first, so that two which run side by side end at the same time. */
export const KERNELS: readonly Kernel[] = [
  {
    name: "6.1-arm64",
    architecture: "arm64",
    suite: "bookworm",
    debianPackage: "linux-image-cloud-arm64",
    files: [...NODES, ...DEMO],
  },
  { name: "sid", ...NEWEST, suite: "sid", files: [...NODES, ...PROGRAMS, ...DEMO] },
  {
    name: "6.12-arm64-16k",
    architecture: "arm64",
    suite: "trixie",
    debianPackage: "linux-image-arm64-16k",
    files: [...NODES, ...PROGRAMS],
  },
  { name: "5.10", ...NEWEST, suite: "bullseye", files: [...NODES, ...PROGRAMS] },
  // Only the modules that docs/kernels.md names, loaded at boot. On the others modules load themselves.
  { name: "6.1-no-modprobe", ...NEWEST, suite: "bookworm", parameter: "drawbridge.modprobe=forbidden", files: NODES },
  { name: "6.12", ...NEWEST, suite: "trixie", files: NODES },
  // It has neither TCX nor BTF, and takes no program of ours.
  { name: "uml", ...USER_MODE_LINUX, without: [], files: [...NODES, ...inGuest("vrf"), ...NAMES] },
  { name: "uml-no-ipv6", ...USER_MODE_LINUX, without: [], parameter: "ipv6.disable=1", files: NODES },
  { name: "uml-no-inet", ...USER_MODE_LINUX, without: ["NF_TABLES_INET"], files: REFUSAL },
  { name: "uml-no-vxlan", ...USER_MODE_LINUX, without: ["VXLAN"], files: REFUSAL },
  // All that a kernel may lack and work.
  {
    name: "uml-least",
    ...USER_MODE_LINUX,
    without: ["NETFILTER_NETLINK_LOG", "NET_CLS_BPF", "BRIDGE_NETFILTER"],
    files: inGuest("smoke", "image"),
  },
  { name: "uml-no-bridge", ...USER_MODE_LINUX, without: ["BRIDGE"], files: REFUSAL },
];
