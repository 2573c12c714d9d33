/** A kernel to boot: the newest one that a Debian suite has for a processor, by QEMU or as User Mode Linux. */
export interface Kernel {
  /** How the command line and the table call it. */
  readonly name: string;
  /** As `process.arch`. */
  readonly architecture: "x64" | "arm64";
  readonly suite: string;
  /** The package that depends on the newest kernel's, or has the sources for User Mode Linux. */
  readonly debianPackage: string;
  /** Whether only the modules that docs/kernels.md names are there, loaded at boot. */
  readonly isModprobeForbidden?: true;
  /** The options that User Mode Linux is built without. */
  readonly without?: readonly string[];
  /** A further word of its command line. */
  readonly parameter?: string;
  /** The test files that it runs; {@link FILES} when absent. */
  readonly files?: readonly string[];
}

const GUEST = ["smoke", "image", "uplinks"].map((name) => `test/kernels/guest/${name}.ts`);
const VRF = "test/kernels/guest/vrf.ts";
const DEMO = "test/kernels/guest/demo.ts";

/**
 * The test files of a kernel, in this order. The titles of those of guest/ begin with their subject; each other file is a
 * subject.
 */
export const FILES: readonly string[] = [
  ...GUEST,
  VRF,
  DEMO,
  "test/kernel/bridge_bypass.test.ts",
  "test/integration/attacks/offloaded_checksum.test.ts",
];
const REFUSAL = ["test/kernels/guest/refusal.ts"];

const NEWEST = "linux-image-cloud-amd64";
const USER_MODE_LINUX = { architecture: "x64", suite: "bookworm", debianPackage: "linux-source-6.1" } as const;
const NO_IPV6 = { parameter: "ipv6.disable=1", files: GUEST } as const;

export const KERNELS: readonly Kernel[] = [
  { name: "5.10", architecture: "x64", suite: "bullseye", debianPackage: NEWEST },
  { name: "6.1", architecture: "x64", suite: "bookworm", debianPackage: NEWEST },
  { name: "6.1-no-modprobe", architecture: "x64", suite: "bookworm", debianPackage: NEWEST, isModprobeForbidden: true },
  { name: "6.12", architecture: "x64", suite: "trixie", debianPackage: NEWEST },
  { name: "sid", architecture: "x64", suite: "sid", debianPackage: NEWEST },
  { name: "6.1-arm64", architecture: "arm64", suite: "bookworm", debianPackage: "linux-image-cloud-arm64" },
  { name: "6.12-arm64-16k", architecture: "arm64", suite: "trixie", debianPackage: "linux-image-arm64-16k" },
  { name: "6.1-no-ipv6", architecture: "x64", suite: "bookworm", debianPackage: NEWEST, ...NO_IPV6 },
  // It has neither TCX nor BTF, and takes no program of ours.
  { name: "uml", ...USER_MODE_LINUX, without: [], files: [...GUEST, VRF] },
  { name: "uml-no-ipv6", ...USER_MODE_LINUX, without: [], ...NO_IPV6 },
  { name: "uml-no-inet", ...USER_MODE_LINUX, without: ["NF_TABLES_INET"], files: REFUSAL },
  { name: "uml-no-vxlan", ...USER_MODE_LINUX, without: ["VXLAN"], files: REFUSAL },
  // All that a kernel may lack and work.
  {
    name: "uml-least",
    ...USER_MODE_LINUX,
    without: ["NETFILTER_NETLINK_LOG", "NET_CLS_BPF", "BRIDGE_NETFILTER"],
    files: GUEST,
  },
  { name: "uml-no-bridge", ...USER_MODE_LINUX, without: ["BRIDGE"], files: REFUSAL },
];
