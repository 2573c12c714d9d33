import assert from "node:assert/strict";
import { constants } from "node:os";
import { dumpEntries } from "../../../kernel/conntrack/request.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { bytes, string, u32 } from "../../../kernel/netlink/attribute.ts";
import { attributeBytes } from "../../../kernel/netlink/message.ts";
import { outcomeOf } from "../../../kernel/netlink/error.ts";
import { Errno, errnoName, errnoText } from "../../../kernel/syscall/errno.ts";
import { check } from "../../../kernel/syscall/syscalls.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { bindLogGroup } from "../../../kernel/packets/log_group.ts";
import { explained } from "../../../kernel/nftables/decode/refusal.ts";
import { requestsOf } from "../../../kernel/nftables/encode/change.ts";
import type { Table } from "../../../kernel/nftables/model/object.ts";
import { createBridge, createVeth } from "../../../kernel/route/link.ts";
import { createVxlan } from "../../../kernel/route/vxlan.ts";
import { createDelayDevice } from "../../../kernel/traffic_control/delay_device.ts";
import { errorBody } from "./scripted_syscalls.ts";

const CAPPED = 0x100;
const ACK_TLVS = 0x200;
const MAC = parseMac("0a:58:0a:f4:01:01");
const bridge = createBridge({ name: "cni0", mac: MAC });
const VETH = createVeth({
  host: { name: "dbv0", mac: MAC },
  peer: { name: "eth0", mac: MAC, netnsFd: 3 },
  mtu: 0,
  master: 1,
});
const VXLAN = createVxlan({ name: "vx", mac: MAC, mtu: 1450, vni: 1, port: 4789, local: parseAddress("192.0.2.1") });

/**
 * Returns the extended attributes (NLMSGERR_ATTR_*): the text, the offset of the bad attribute, and an unrelated
 * cookie.
 */
function extended(message: string, offset?: number): Uint8Array {
  const table = { message: [1, string], offset: [2, u32], cookie: [3, bytes] } as const;
  return attributeBytes(table, {
    message,
    cookie: Uint8Array.of(1, 2, 3),
    ...(offset === undefined ? {} : { offset }),
  });
}

describe("kernel/netlink/error", () => {
  it("the error has the kernel's own text and names the attribute that the offset points at", () => {
    const mtuOffset = 16 + 16 + 12;
    const error = outcomeOf(bridge, CAPPED | ACK_TLVS, errorBody(Errno.ERANGE, 16, extended("too long", mtuOffset)));
    assert.equal(error?.message, "create bridge cni0: too long (ERANGE, attribute name)");
    assert.equal(error?.kernelMessage, "too long");
  });

  it("the error names an attribute inside a nested one", () => {
    const kindOffset = 16 + 16 + 12 + 12 + 4;
    const error = outcomeOf(bridge, CAPPED | ACK_TLVS, errorBody(Errno.EINVAL, 16, extended("unknown", kindOffset)));
    assert.match(error?.message ?? "", /attribute linkInfo\.kind\)$/);
  });

  it("the kernel's text is found after a request that is echoed whole, also one of odd length", () => {
    for (const echoed of [16 + bridge.body.length, 61]) {
      const error = outcomeOf(bridge, ACK_TLVS, errorBody(Errno.EINVAL, echoed, extended("mtu too large")));
      assert.equal(error?.message, "create bridge cni0: mtu too large (EINVAL)");
    }
  });

  it("a kind of link that the kernel does not have is explained by its option and its module", () => {
    const text = extended("Unknown device type");
    for (const [create, words] of [
      [
        bridge,
        /^create bridge cni0: the kernel has no links of kind bridge \(CONFIG_BRIDGE\): modprobe bridge; .*EOPNOTSUPP\)$/,
      ],
      [VETH, /^create veth dbv0 with peer eth0: .* kind veth \(CONFIG_VETH\): modprobe veth; /],
      [VXLAN, /^create VXLAN device vx from 192\.0\.2\.1: .* kind vxlan \(CONFIG_VXLAN\): modprobe vxlan; /],
      [createDelayDevice({ name: "ifb9", mac: MAC }, 0), /kind ifb \(CONFIG_IFB\): modprobe ifb; /],
    ] as const) {
      for (const body of [errorBody(Errno.EOPNOTSUPP, 16, text), errorBody(Errno.EOPNOTSUPP, 16, new Uint8Array(0))]) {
        assert.match(outcomeOf(create, CAPPED | ACK_TLVS, body)?.message ?? "", words);
      }
      // Other refusals keep the kernel's words.
      assert.match(outcomeOf(create, CAPPED, errorBody(Errno.EEXIST, 16, text))?.message ?? "", /already exists/);
    }
  });

  it("a subsystem of nfnetlink that the kernel does not have is explained by its option and its module", () => {
    const group = bindLogGroup({ group: 107, copyBytes: 96, queueThreshold: 1, queueMilliseconds: 0 });
    for (const [request, words] of [
      [
        group,
        /^bind log group 107: .* packet logging by netlink \(CONFIG_NETFILTER_NETLINK_LOG\): modprobe nfnetlink_log; /,
      ],
      [
        dumpEntries(),
        /^list conntrack entries: .* \(CONFIG_NF_CT_NETLINK\): modprobe nf_conntrack_netlink; .*EINVAL\)$/,
      ],
    ] as const) {
      const told = (errno: number): string =>
        outcomeOf(request, CAPPED, errorBody(errno, 16, new Uint8Array(0)))?.message ?? "";
      assert.match(told(Errno.EINVAL), words);
      assert.doesNotMatch(told(Errno.EPERM), /CONFIG_/);
    }
  });

  it("a family of tables that the kernel does not have is named, but not where the table's owner may be the reason", () => {
    const refused = (table: Omit<Table, "sets" | "chains">): string => {
      const [request] = requestsOf([{ kind: "add table", table }]);
      assert.ok(request !== undefined);
      const error = outcomeOf(request, CAPPED, errorBody(Errno.EOPNOTSUPP, 16, new Uint8Array(0)));
      return error === undefined ? "" : explained(request, error).message;
    };
    assert.match(refused({ family: "inet", name: "t" }), /family inet \(CONFIG_NF_TABLES_INET\): boot .*INET=y/);
    assert.match(refused({ family: "bridge", name: "t" }), /CONFIG_NF_TABLES_BRIDGE/);
    assert.match(refused({ family: "inet", name: "t", isOwned: true }), /exists without an owner.*older than 6\.9/);
  });
});

describe("kernel/syscall/errno", () => {
  it("every errno has a text and a number of its own", () => {
    const numbers = Object.values(Errno);
    assert.equal(new Set(numbers).size, numbers.length);
    for (const [name, errno] of Object.entries(Errno)) {
      assert.equal(errnoName(errno), name);
      assert.notEqual(errnoText(errno), "unknown error");
    }
  });

  it("every errno of the machine has its name, whether or not we branch on it", () => {
    const { EWOULDBLOCK, ...named } = constants.errno;
    assert.equal(EWOULDBLOCK, Errno.EAGAIN);
    // EDEADLOCK, ENOTSUP and the like are second names.
    const names = new Map(Object.entries(named).map(([name, errno]) => [errno, name]));
    for (const [errno, name] of names) if (name !== "ENOTSUP") assert.equal(errnoName(errno), name);
    for (const unnamed of [0, 41, 58, 134, 524]) assert.equal(errnoName(unnamed), `errno ${unnamed}`);
  });

  it("an unknown errno is printed by its number", () => {
    assert.throws(() => check(-524, "ask"), { code: "ERR_SYSCALL", message: "ask: errno 524 (unknown error)" });
    assert.equal(check(3, "ask"), 3);
  });
});
