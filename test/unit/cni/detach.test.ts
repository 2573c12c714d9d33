import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import type { Environment } from "../../../cni/environment.ts";
import { toCniError } from "../../../cni/error.ts";
import type { PluginMachine } from "../../../cni/host.ts";
import { type Face, runVerb } from "../../../cni/plugin.ts";
import { frame } from "../../../attachment/message_frame.ts";
import { messageType, Subsystem } from "../../../kernel/netlink/netfilter_message.ts";
import { type PolicydReply, replyToJson } from "../../../attachment/policyd_messages.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { assertRefusal, ipamInput, networkInput } from "../../support/cni/cni.ts";
import { callOn } from "../../support/daemon/fake_call.ts";
import { FakeKernel, POD_INTERFACE } from "../../support/daemon/fake_kernel.ts";
import { refusedConfigurations } from "./configuration/refused_configurations.ts";

/** Matches refusals of the fields without which a DEL cannot know where the files and links are. */
const neededByDel =
  /^(missing network name|invalid characters found in network name|network name|(name|bridge|runDir|ipam|ipam\.dataDir): (?!missing))/;

describe("cni DEL after a refused ADD", () => {
  const directory = useTemporaryDirectory();

  function run(kernel: FakeKernel, face: Face, verb: string, input: object, environment: Environment = {}): string {
    kernel.restart();
    return runVerb(kernel.node, face, verb, {
      self: face,
      environment: {
        CNI_CONTAINERID: "c1",
        CNI_IFNAME: POD_INTERFACE,
        CNI_NETNS: "/proc/self/ns/mnt",
        ...environment,
      },
      stdin: JSON.stringify(input),
    });
  }

  /** Puts the configuration's files below this test's directory, unless it names directories itself. */
  function placed(input: Record<string, unknown>): Record<string, unknown> {
    const { ipam = {} } = input;
    const isObject = ipam !== null && typeof ipam === "object";
    return {
      runDir: `${directory()}/run`,
      ...input,
      ipam: isObject ? { dataDir: `${directory()}/networks`, ...ipam } : ipam,
    };
  }

  /** Returns the names of the files of attachments. */
  function held(): readonly string[] {
    const places = ["networks/pods", "run/attachments/pods"].map((place) => `${directory()}/${place}`);
    return places
      .flatMap((place) => (existsSync(place) ? readdirSync(place) : []))
      .filter((name) => !/^(lock|last_reserved_ip\.\d)$/.test(name));
  }

  for (const [code, input, ...says] of refusedConfigurations) {
    if (code === 1) continue;
    const [field = ""] = says;
    if (neededByDel.test(field)) {
      it(`is refused because a field about places is invalid: ${field.slice(0, 80)}`, () => {
        assertRefusal(() => run(new FakeKernel(directory()), "drawbridge", "DEL", input), { code, says: [field] });
      });
      continue;
    }
    it(`succeeds though the ADD was refused: ${field.slice(0, 80)}`, () => {
      const kernel = new FakeKernel(directory());
      assertRefusal(() => run(kernel, "drawbridge", "ADD", placed(input)), { code, says: [] });
      assert.deepEqual([kernel.journal, held()], [[], []]);
      for (const face of ["drawbridge", "drawbridge-ipam", "loopback"] as const) {
        assert.equal(run(kernel, face, "DEL", placed(input)), "");
      }
    });
  }

  for (const garbage of ["garbage", "a=b=c", "UNKNOWN=1", "MAC=x", "IP=x", "=;="]) {
    it(`succeeds with CNI_ARGS ${garbage}`, () => {
      const kernel = new FakeKernel(directory());
      const environment = { CNI_ARGS: garbage };
      for (const face of ["drawbridge", "drawbridge-ipam"] as const) {
        const input = placed(networkInput());
        // An IPAM plugin does not use a MAC address.
        if (face === "drawbridge" || garbage !== "MAC=x") {
          const refused = (error: unknown): boolean => [4, 7].includes(toCniError(error).code);
          assert.throws(() => run(kernel, face, "ADD", input, environment), refused);
        }
        assert.equal(run(kernel, face, "DEL", input, environment), "");
        assert.deepEqual(held(), []);
      }
    });
  }
});

describe("cni DEL of a pod that the daemon has detached", () => {
  const directory = useTemporaryDirectory();
  const DAEMON = 200_000;
  const AF_UNIX = 1;

  /** Returns the kernel's node with a daemon that gives this answer to every request. */
  function withDaemon({ node }: FakeKernel, answer: PolicydReply): PluginMachine {
    const { syscalls } = node;
    return {
      ...node,
      syscalls: {
        ...syscalls,
        socket: (family, type, protocol) => (family === AF_UNIX ? DAEMON : syscalls.socket(family, type, protocol)),
        connect: () => 0,
        send: (fd, data, flags) => (fd === DAEMON ? data.length : syscalls.send(fd, data, flags)),
        receiveFrom: (fd, buffer, flags, sender) => {
          if (fd !== DAEMON) return syscalls.receiveFrom(fd, buffer, flags, sender);
          const reply = frame(replyToJson(answer));
          buffer.set(reply);
          return reply.length;
        },
        close: (fd) => (fd === DAEMON ? 0 : syscalls.close(fd)),
      },
    };
  }

  /**
   * Runs an ADD and a DEL with a daemon that gives this answer. @returns what the DEL asks the kernel for, and the
   * files that it leaves
   */
  function afterDel(answer: PolicydReply): { readonly asked: readonly string[]; readonly left: readonly string[] } {
    const kernel = new FakeKernel(directory());
    const environment = { CNI_CONTAINERID: "c1", CNI_IFNAME: POD_INTERFACE, CNI_NETNS: "/proc/self/ns/mnt" };
    const input = { ...ipamInput({ dataDir: `${directory()}/networks` }), runDir: `${directory()}/run` };
    runVerb(kernel.node, "drawbridge", "ADD", { self: "drawbridge", environment, stdin: JSON.stringify(input) });
    kernel.restart();
    runVerb(withDaemon(kernel, answer), "drawbridge", "DEL", {
      self: "drawbridge",
      environment,
      stdin: JSON.stringify({ ...input, policyd: {} }),
    });
    const asked = [...kernel.questions.map(({ subject }) => subject), ...kernel.journal];
    const places = [`${directory()}/networks/pods`, `${directory()}/run/attachments/pods`];
    const left = places.flatMap((place) => readdirSync(place)).filter((name) => !/^(lock|last_reserved_ip)/.test(name));
    return { asked: asked.filter((what) => !what.startsWith("unlink")), left };
  }

  it("DEL-02: releases the addresses and asks the kernel for nothing when the daemon has detached the pod", () => {
    assert.deepEqual(afterDel({ type: "done", isDetached: true }), { asked: [], left: [] });
  });

  it("POD-20: lists flows before it takes the store's lock, which other pods wait for", () => {
    const kernel = new FakeKernel(directory());
    callOn(kernel, directory(), "ADD");
    const events: string[] = [];
    const { syscalls } = kernel.node;
    let lock = -1;
    const node: PluginMachine = {
      ...kernel.node,
      syscalls: {
        ...syscalls,
        lock: (fd, milliseconds) => {
          // The pod's namespace is locked by then, for which no other pod waits (P19).
          if (!readlinkSync(`/proc/self/fd/${fd}`).endsWith("/lock")) return syscalls.lock(fd, milliseconds);
          lock = fd;
          events.push("lock");
          return syscalls.lock(fd, milliseconds);
        },
        send: (fd, data, flags) => {
          const lists = kernel.listsOfFlows;
          const sent = syscalls.send(fd, data, flags);
          if (kernel.listsOfFlows > lists) events.push("flows");
          return sent;
        },
        close: (fd) => {
          if (fd === lock) events.push("unlock");
          return syscalls.close(fd);
        },
      },
    };
    assert.equal(callOn({ node, restart: () => {} }, directory(), "DEL", undefined, { policyd: {} }), "");
    assert.deepEqual(
      events.filter((event, index) => event !== events[index - 1]),
      ["flows", "lock", "unlock"],
    );
    assert.deepEqual([...kernel.neighbours.node], []);
  });

  it("DEL-02: detaches the pod itself where the daemon does not know the pod, or refuses", () => {
    const refused = { type: "refused", isTemporary: true, message: "its flows stay" } as const;
    for (const answer of [{ type: "done" }, { type: "done", isDetached: false }, refused] as const) {
      const { asked, left } = afterDel(answer);
      assert.deepEqual(left, []);
      assert.deepEqual(
        asked.map((what) => what.replace(/dbv[0-9a-f]{12}/, "LINK")).filter((what) => what !== TABLES),
        ["link drawbridge0", "delete LINK", "request 29", "request 29"],
        answer.type,
      );
    }
  });
});

describe("cni DEL and objects of other attachments", () => {
  const directory = useTemporaryDirectory();

  const neighbours = (kernel: FakeKernel): readonly string[] => [...kernel.neighbours.node].sort();

  it("keeps the container's interface of another network whose record is of this boot (B5)", () => {
    const kernel = new FakeKernel(directory());
    const call = (verb: "ADD" | "DEL", name: string): string => callOn(kernel, directory(), verb, undefined, { name });
    call("ADD", "first");
    const before = [[...kernel.links.node], [...kernel.links.pod], neighbours(kernel)];
    assert.throws(() => call("ADD", "second"), /already exists in the pod/);
    assert.equal(call("DEL", "second"), "");
    assert.deepEqual([[...kernel.links.node], [...kernel.links.pod], neighbours(kernel)], before);
    const record = `${directory()}/run/attachments/first/c1:${POD_INTERFACE}.json`;
    const text = readFileSync(record, "utf8");
    writeFileSync(record, text.replace(kernel.node.bootId(), "11111111-0000-4000-8000-000000000000"));
    assert.equal(call("DEL", "second"), "");
    assert.deepEqual([...kernel.links.node], ["drawbridge0"], "a record of another boot keeps nothing");
    writeFileSync(record, text);
    assert.equal(call("DEL", "first"), "");
    assert.deepEqual([[...kernel.links.node], [...kernel.links.pod], neighbours(kernel)], [["drawbridge0"], [], []]);
  });
});

describe("cni ADD and addresses of sandboxes that ended without DEL", () => {
  const directory = useTemporaryDirectory();

  it("ENDED-01: a requested address is refused while the sandbox that holds it has its link, and is then given only to a sandbox of the same Pod", () => {
    const kernel = new FakeKernel(directory());
    const input = { ...ipamInput({ dataDir: `${directory()}/networks` }), runDir: `${directory()}/run` };
    const add = (containerId: string, pod: string): string => {
      kernel.restart();
      const environment = {
        CNI_CONTAINERID: containerId,
        CNI_IFNAME: POD_INTERFACE,
        CNI_NETNS: "/proc/self/ns/mnt",
        CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=n;K8S_POD_NAME=${pod};K8S_POD_UID=u;IP=10.244.1.9`,
      };
      return runVerb(kernel.node, "drawbridge", "ADD", {
        self: "drawbridge",
        environment,
        stdin: JSON.stringify(input),
      });
    };
    add("first", "a");
    const [link = ""] = [...kernel.links.node].filter((name) => name.startsWith("dbv"));
    // Only one pod's namespace is there.
    kernel.links.pod.clear();
    assert.throws(() => add("second", "a"), { code: "ERR_ADDRESS_UNAVAILABLE" });
    kernel.links.node.delete(link);
    assert.throws(() => add("other", "b"), { code: "ERR_ADDRESS_UNAVAILABLE" });
    assert.match(add("second", "a"), /"10\.244\.1\.9\/32"/);
    assert.deepEqual(readdirSync(`${directory()}/run/attachments/pods`), [`second:${POD_INTERFACE}.json`]);
    assert.equal(readdirSync(`${directory()}/networks/pods`).filter((name) => name.includes(":")).length, 1);
  });
});

/** NFT_MSG_GETTABLE: the question whether the daemon has left tables. */
const TABLES = `request ${messageType(Subsystem.NFTABLES, 1)}`;
