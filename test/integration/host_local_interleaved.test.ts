import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { text } from "node:stream/consumers";
import type { RangeInput } from "../../ipam/range.ts";
import { canonicalRangeSets } from "../../ipam/range.ts";
import type { Owner } from "../../ipam/store.ts";
import { AddressStore } from "../../ipam/store.ts";
import { acquireFileLock } from "../../kernel/file_lock.ts";
import { parseAddress, tryParseAddress } from "../../kernel/ip/address.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import { nodeSyscalls } from "../../kernel/syscall/node.ts";
import { realFileSystem, useTemporaryDirectory } from "../support/address_store.ts";
import { peerAdvice, peerDirectory } from "../support/peer.ts";
import { skip } from "../support/privilege.ts";

const NETWORK = "podnet";

/** Both ranges hold 13 pods, so that a few dozen turns go around them. */
const SMALL: readonly (readonly RangeInput[])[] = [[{ subnet: "10.1.2.0/28" }], [{ subnet: "fd00:1::/124" }]];

/** The addresses given, or the message of the refusal. */
type Outcome = { readonly ips: readonly string[] } | { readonly refused: string };

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** The real host-local on a data directory. */
class GoHostLocal {
  readonly #executable: string;
  readonly #directory: string;

  constructor(executable: string, directory: string) {
    this.#executable = executable;
    this.#directory = directory;
  }

  async call(
    command: "ADD" | "CHECK" | "DEL",
    sets: readonly (readonly RangeInput[])[],
    owner: Owner,
    requested: readonly string[] = [],
  ): Promise<Outcome> {
    const ipam = { type: "host-local", dataDir: this.#directory, ranges: sets };
    const args = { cni: { ips: requested } };
    const child = spawn(this.#executable, {
      env: {
        CNI_COMMAND: command,
        CNI_CONTAINERID: owner.containerId,
        CNI_IFNAME: owner.ifname,
        CNI_NETNS: "/run/netns/none",
        // Address management alone needs no namespace; without this the path is opened.
        CNI_NETNS_OVERRIDE: "1",
        CNI_PATH: "/",
      },
    });
    child.stdin.end(JSON.stringify({ cniVersion: "1.0.0", name: NETWORK, type: "bridge", ipam, args, prevResult: {} }));
    const answer: unknown = JSON.parse((await text(child.stdout)) || "{}");
    assert.ok(isObject(answer));
    if (typeof answer["msg"] === "string") return { refused: answer["msg"] };
    const ips = Array.isArray(answer["ips"]) ? answer["ips"] : [];
    return { ips: ips.map((ip: unknown) => (isObject(ip) ? String(ip["address"]) : "")) };
  }
}

function ours(directory: string): AddressStore {
  const syscalls = nodeSyscalls();
  return new AddressStore({
    directory,
    network: NETWORK,
    fileSystem: realFileSystem,
    lock: { acquire: (path) => acquireFileLock(syscalls, path) },
  });
}

function ourAdd(
  store: AddressStore,
  sets: readonly (readonly RangeInput[])[],
  owner: Owner,
  requested: readonly string[] = [],
): Outcome {
  try {
    const wanted = requested.map((one) => parseAddress(one));
    const allocations = store.allocate(canonicalRangeSets(sets, "ipam.ranges"), owner, wanted);
    return { ips: allocations.map(({ address }) => formatCidr(address)) };
  } catch (error) {
    assert.ok(error instanceof Error);
    return { refused: error.message };
  }
}

function pod(n: number): Owner {
  return { containerId: `pod-${n}`, ifname: "eth0" };
}

/** Every file of the network's directory: its mode and content. */
function tree(directory: string): Readonly<Record<string, string>> {
  const base = `${directory}/${NETWORK}`;
  const show = (path: string) => `${(statSync(path).mode & 0o777).toString(8)} ${readFileSync(path, "utf8")}`;
  const files = readdirSync(base).sort();
  const own = (statSync(base).mode & 0o777).toString(8);
  return { ".": own, ...Object.fromEntries(files.map((name) => [name, show(`${base}/${name}`)])) };
}

function heldAddresses(directory: string): readonly string[] {
  return readdirSync(`${directory}/${NETWORK}`).filter((name) => tryParseAddress(name) !== undefined);
}

describe("the store beside Go's host-local", () => {
  const base = useTemporaryDirectory();
  let executable = "";

  before(function () {
    const peers = peerDirectory();
    if (peers === undefined) skip(this, peerAdvice());
    executable = `${peers}/host-local`;
  });

  const go = (directory = base()) => new GoHostLocal(executable, directory);

  it("I1: leaves the same files, contents and modes as Go, the lock among them", async () => {
    const [theirs, mine] = [`${base()}/go`, `${base()}/drawbridge`];
    const peer = go(theirs);
    const store = ours(mine);
    for (const n of [1, 2, 3]) {
      assert.deepEqual(await peer.call("ADD", SMALL, pod(n)), ourAdd(store, SMALL, pod(n)));
    }
    await peer.call("DEL", SMALL, pod(2));
    store.release(pod(2));
    assert.deepEqual(tree(mine), tree(theirs));
    assert.match(tree(mine)["lock"] ?? "", /^750 $/);
  });

  it("I1: names IPv6 files as Go does", async () => {
    const sets = [[{ subnet: "2001:db8::/32", rangeStart: "2001:db8::1" }]];
    const [theirs, mine] = [`${base()}/go`, `${base()}/drawbridge`];
    const awkward = [
      "2001:db8:0:1:0:0:1:0",
      "2001:db8:0:1:1:1:1:1",
      "2001:db8:0:0:1:0:0:1",
      "2001:db8:a:0:0:1::",
      "2001:db8:0:0:0:0:a00:1",
      "2001:db8:1:2:3:4:5:6",
      "2001:db8:0:1:0:1:0:1",
    ];
    for (const [n, address] of awkward.entries()) {
      const outcome = await go(theirs).call("ADD", sets, pod(n), [address]);
      assert.deepEqual(outcome, ourAdd(ours(mine), sets, pod(n), [address]));
    }
    assert.deepEqual(heldAddresses(mine), heldAddresses(theirs));
    assert.equal(heldAddresses(mine).length, awkward.length);
  });

  it("I2: each releases what the other has reserved, and finds it before", async () => {
    const store = ours(base());
    const four = ourAdd(store, SMALL, pod(1));
    assert.ok("ips" in four && four.ips.length === 2);
    assert.deepEqual(await go().call("CHECK", SMALL, pod(1)), { ips: [] });
    assert.deepEqual(await go().call("DEL", SMALL, pod(1)), { ips: [] });
    assert.deepEqual(heldAddresses(base()), []);
    const given = await go().call("ADD", SMALL, pod(2));
    assert.ok("ips" in given);
    assert.deepEqual(given.ips, ["10.1.2.3/28", "fd00:1::3/124"], "each goes on where the other stopped");
    assert.equal(store.release(pod(2)).length, 2);
    assert.deepEqual(heldAddresses(base()), []);
    const refused = await go().call("CHECK", SMALL, pod(2));
    assert.ok("refused" in refused);
  });

  const refusals: readonly (readonly [string, readonly (readonly RangeInput[])[], number, readonly string[]])[] = [
    ["I4: the same owner twice", SMALL, 1, []],
    ["I6: a taken address", SMALL, 5, ["10.1.2.2"]],
    ["I6: a taken address of the second set", SMALL, 5, ["fd00:1::2"]],
    ["I6: a gateway", SMALL, 5, ["10.1.2.1"]],
    ["I6: an address outside", SMALL, 5, ["10.1.3.1"]],
    ["I5: a full range set of two ranges", [[{ subnet: "10.3.0.0/30" }, { subnet: "10.3.1.0/30" }]], 5, []],
  ];
  for (const [name, sets, n, requested] of refusals) {
    it(`${name} is refused in Go's own words`, async () => {
      const store = ours(base());
      ourAdd(store, SMALL, pod(1));
      if (sets !== SMALL) for (const other of [11, 12]) ourAdd(store, sets, pod(other));
      const theirs = await go().call("ADD", sets, pod(n), requested);
      const mine = ourAdd(store, sets, pod(n), requested);
      assert.ok("refused" in theirs && "refused" in mine);
      assert.ok(mine.refused.startsWith(theirs.refused), `${mine.refused}\n${theirs.refused}`);
    });
  }

  it("I2: 200 calls of both at once on one store: no address twice, nothing left over", async function () {
    this.timeout(60_000);
    const store = ours(base());
    const live = new Map<number, readonly string[]>();
    let random = 20_240_229;
    const draw = (below: number) => {
      random = (random * 48271) % 0x7fffffff;
      return random % below;
    };
    const keep = (n: number, outcome: Outcome) => {
      assert.ok("ips" in outcome && outcome.ips.length === 2, JSON.stringify(outcome));
      live.set(n, outcome.ips);
    };
    const counted = { add: 0, del: 0 };
    for (let round = 0; round < 50; round++) {
      // Four pods of different numbers, three for Go's processes and one for us while they run.
      const pods = [0, 1, 2, 3].map((k) => draw(3) * 4 + k);
      const order = draw(4);
      const rotated = [...pods.slice(order), ...pods.slice(0, order)];
      const [own, ...others] = rotated;
      assert.ok(own !== undefined);
      const released = rotated.filter((n) => live.has(n));
      counted.del += released.length;
      counted.add += rotated.length - released.length;
      const running = others.map(async (n) => {
        if (!live.has(n)) return keep(n, await go().call("ADD", SMALL, pod(n)));
        assert.deepEqual(await go().call("DEL", SMALL, pod(n)), { ips: [] });
        return void live.delete(n);
      });
      // A few milliseconds bring our call to different points of theirs.
      await new Promise((resolve) => setTimeout(resolve, draw(6)));
      if (live.has(own)) {
        assert.equal(store.release(pod(own)).length, 2);
        live.delete(own);
      } else keep(own, ourAdd(store, SMALL, pod(own)));
      await Promise.all(running);
      const all = [...live.values()].flat().map((address) => address.split("/")[0]);
      assert.equal(new Set(all).size, all.length, `round ${round}: ${all.join(" ")}`);
      assert.deepEqual(new Set(heldAddresses(base())), new Set(all), `round ${round}`);
    }
    assert.equal(counted.add + counted.del, 200);
    assert.ok(counted.del > 50, "too few releases to mean anything");
    for (const n of live.keys()) {
      if (n % 2 === 0) store.release(pod(n));
      else await go().call("DEL", SMALL, pod(n));
    }
    assert.deepEqual(Object.keys(tree(base())), [".", "last_reserved_ip.0", "last_reserved_ip.1", "lock"].sort());
    assert.deepEqual(readdirSync(`${base()}/.drawbridge`), []);
  });
});
