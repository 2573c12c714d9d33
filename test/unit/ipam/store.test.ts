import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { AddressStore, type Allocation, type Holding, type Owner, type ReleaseSteps } from "../../../ipam/store.ts";
import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import {
  addresses,
  dualStack,
  failingFileSystem,
  FakeLock,
  type FileCall,
  killedFileSystem,
  pod,
  rangeSets,
  realFileSystem,
  recordingFileSystem,
  texts,
  useAddressStore,
  writeForeign,
} from "../../support/ipam/address_store.ts";

const NETWORK = "podnet";
const DUAL_STACK = dualStack();
const POD: Owner = { containerId: "c0ffee", ifname: "eth0" };

function got(allocations: readonly Allocation[]): readonly string[] {
  return allocations.map(({ address }) => formatCidr(address));
}

describe("ipam/store", () => {
  const { directory, path, open, held, scratch } = useAddressStore();
  const mode = (file: string) => (statSync(file).mode & 0o777).toString(8);

  describe("that has lost its files", () => {
    const OTHER: Owner = { containerId: "facade", ifname: "eth0" };

    /** Returns a store that knows the records of pods. */
    function openWith(recorded: () => Iterable<Holding>, fileSystem = realFileSystem): AddressStore {
      return new AddressStore({
        directory: directory(),
        network: NETWORK,
        fileSystem,
        lock: new FakeLock(),
        recorded,
      });
    }

    it("STATE-07: addresses in pods' records are reserved again before an address is given away", () => {
      const lost = open().allocate(DUAL_STACK, POD, []);
      const before = held();
      rmSync(`${directory()}/${NETWORK}`, { recursive: true });
      const store = openWith(() => [{ owner: POD, addresses: lost.map(({ address }) => address.address) }]);
      assert.deepEqual(got(store.allocate(DUAL_STACK, OTHER, [], "caller")), ["10.1.2.3/24", "2001:db8:1::3/64"]);
      for (const [address, content] of Object.entries(before)) {
        if (!address.startsWith("last")) assert.equal(readFileSync(path(address), "utf8"), content);
      }
      assert.deepEqual(scratch(), []);
    });

    it("STATE-07: a lock that another call has made since, and a restore that was interrupted, hide no record", () => {
      const lost = open()
        .allocate(DUAL_STACK, POD, [])
        .map(({ address }) => address.address);
      const recorded = (): Iterable<Holding> => [{ owner: POD, addresses: lost }];
      for (const fail of [killedFileSystem, (at: number) => failingFileSystem(at, "from", "ENOSPC")]) {
        for (let at = 0, isDone = false; !isDone; at++) {
          for (const name of readdirSync(`${directory()}/${NETWORK}`)) rmSync(path(name));
          writeForeign(path("lock"), "");
          try {
            openWith(recorded, fail(at)).allocate(DUAL_STACK, OTHER, [], "caller");
            isDone = true;
          } catch {
            // The next ADD repeats it.
          }
          openWith(recorded).allocate(DUAL_STACK, { containerId: "third", ifname: "eth0" }, [], "caller");
          for (const one of lost) assert.match(readFileSync(path(formatAddress(one)), "utf8"), /^c0ffee/, `call ${at}`);
        }
      }
    });

    it("STATE-07: records are not read if the store has given an address, and an existing reservation is not replaced", () => {
      const [first] = open().allocate(DUAL_STACK, POD, []);
      assert.ok(first !== undefined);
      const store = openWith(() => assert.fail("records are read"));
      store.allocate(DUAL_STACK, OTHER, [], "caller");
      assert.equal(store.restore({ owner: OTHER, addresses: [first.address.address] }, "kept"), 0);
      assert.equal(readFileSync(path("10.1.2.2"), "utf8"), "c0ffee\r\neth0");
      assert.deepEqual(scratch(), []);
    });
  });

  describe("on disk", () => {
    it("I1: files have host-local's bytes and modes, and nothing else is left", () => {
      const lock = new FakeLock();
      const allocations = open(realFileSystem, lock).allocate(DUAL_STACK, POD, []);
      assert.deepEqual(got(allocations), ["10.1.2.2/24", "2001:db8:1::2/64"]);
      assert.deepEqual(
        allocations.map(({ gateway, set }) => [formatAddress(gateway), set]),
        [
          ["10.1.2.1", 0],
          ["2001:db8:1::1", 1],
        ],
      );
      const expected = {
        "10.1.2.2": "c0ffee\r\neth0",
        "2001:db8:1::2": "c0ffee\r\neth0",
        "last_reserved_ip.0": "10.1.2.2",
        "last_reserved_ip.1": "2001:db8:1::2",
      };
      const names = readdirSync(`${directory()}/${NETWORK}`).sort();
      assert.deepEqual(Object.fromEntries(names.map((name) => [name, readFileSync(path(name), "utf8")])), expected);
      for (const name of names) assert.equal(mode(path(name)), "600", name);
      assert.equal(mode(`${directory()}/${NETWORK}`), "755");
      assert.deepEqual(scratch(), []);
      assert.deepEqual(lock.paths, [path("lock")]);
      assert.equal(lock.held, false);
    });

    it("FOREIGN-04: foreign addresses are skipped, refused when requested, and named when none is left", () => {
      const isForeign = (address: Address): boolean => /\.[2-5]$|::[2-5]$/.test(formatAddress(address));
      const given = open().allocate(DUAL_STACK, POD, [], "scan", isForeign);
      assert.deepEqual(
        given.map(({ address }) => formatAddress(address.address)),
        ["10.1.2.6", "2001:db8:1::6"],
      );
      const [taken] = addresses("10.1.2.3");
      assert.ok(taken !== undefined);
      assert.throws(
        () => open().allocate(DUAL_STACK, pod(1), [taken], "scan", isForeign),
        /10\.1\.2\.3 is not available/,
      );
      const small = rangeSets(["10.1.3.0/30"]);
      assert.throws(
        () => open().allocate(small, pod(2), [], "scan", isForeign),
        /but for 1 that the node itself \(ip route show table local\) or pods of another plugin or network have/,
      );
      for (const subnet of ["10.0.0.0/8", "2001:db8:1::/64"]) {
        let asked = 0;
        const isAlwaysForeign = (): boolean => ++asked > 0;
        const all = rangeSets([subnet]);
        assert.throws(() => open().allocate(all, pod(2), [], "scan", isAlwaysForeign), /but for 1024 that/);
        assert.equal(asked, 1024, "no ADD tries a whole network while others wait");
      }
    });

    it("I3: a release accepts legacy content and content with white space around it", () => {
      open().allocate(DUAL_STACK, pod(1), []);
      writeForeign(path("10.1.2.77"), "old-one");
      writeForeign(path("10.1.2.78"), " \tspaced\r\neth0 \n");
      writeForeign(path("10.1.2.79"), "spaced\r\neth1");
      writeForeign(path("10.1.2.80"), "\nspaced\n");
      assert.deepEqual(texts(open().release({ containerId: "old-one", ifname: "eth0" })), ["10.1.2.77"]);
      const spaced = { containerId: "spaced", ifname: "eth0" };
      assert.deepEqual(texts(open().release(spaced)), ["10.1.2.78"]);
      assert.deepEqual(texts(open().release(spaced)), ["10.1.2.80"], "the legacy one comes when no other is left");
      assert.deepEqual(texts(open().release(spaced)), []);
      assert.deepEqual(Object.keys(held()).toSorted(), ["10.1.2.2", "10.1.2.79", "2001:db8:1::2"]);
    });

    it("releaseAddresses releases only addresses of the owner, and reads no others", () => {
      open().allocate(DUAL_STACK, POD, []);
      open().allocate(DUAL_STACK, pod(1), []);
      const calls: FileCall[] = [];
      const all = addresses("10.1.2.2", "10.1.2.3", "10.1.2.9", "2001:db8:1::2");
      const released = open(recordingFileSystem(calls)).releaseAddresses(POD, all);
      assert.deepEqual(texts(released), ["10.1.2.2", "2001:db8:1::2"]);
      assert.deepEqual(Object.keys(held()).toSorted(), ["10.1.2.3", "2001:db8:1::3"]);
      assert.ok(!calls.some(({ method }) => method === "readDirectory"));
    });

    for (const way of ["release", "releaseAddresses"] as const) {
      it(`${way} reports the addresses early without the lock, and last those that the owner still has, with it`, () => {
        const lock = new FakeLock();
        open(realFileSystem, lock).allocate(DUAL_STACK, POD, []);
        const reported: (readonly [string, boolean, ...string[]])[] = [];
        const steps: ReleaseSteps = {
          early: (addressesOf) => {
            reported.push(["early", lock.held, ...texts(addressesOf).toSorted()]);
            // The file is made again, since reservations of one owner share an inode.
            rmSync(path("10.1.2.2"));
            writeForeign(path("10.1.2.2"), "another\r\neth0");
          },
          last: (addressesOf) => reported.push(["last", lock.held, ...texts(addressesOf)]),
        };
        const store = open(realFileSystem, lock);
        const all = addresses("10.1.2.2", "2001:db8:1::2", "2001:db8:1::9");
        const released = way === "release" ? store.release(POD, steps) : store.releaseAddresses(POD, all, steps);
        assert.deepEqual(texts(released), ["2001:db8:1::2"]);
        assert.deepEqual(reported, [
          ["early", false, "10.1.2.2", "2001:db8:1::2"],
          ["last", true, "2001:db8:1::2"],
        ]);
        assert.deepEqual(Object.keys(held()), ["10.1.2.2"]);
        const locks = lock.paths.length;
        assert.deepEqual(texts(store.release(POD, steps)), []);
        assert.deepEqual([reported.length, lock.paths.length], [2, locks], "without addresses no step is called");
      });
    }

    it("the addresses stay reserved when the early or the last step fails", () => {
      open().allocate(DUAL_STACK, POD, []);
      const fail = (): never => {
        throw new Error("refused");
      };
      for (const steps of [{ early: fail }, { last: fail }]) assert.throws(() => open().release(POD, steps), /refused/);
      assert.deepEqual(Object.keys(held()), ["10.1.2.2", "2001:db8:1::2"]);
    });

    it("names that leave the directory or are ambiguous are refused", () => {
      for (const network of ["", "..", ".drawbridge", "a/b", "a\0", "x".repeat(201)]) {
        const options = { directory: directory(), network, fileSystem: realFileSystem, lock: new FakeLock() };
        assert.throws(() => new AddressStore(options), { code: "ERR_CONFIGURATION" }, network);
      }
      for (const owner of [
        { containerId: "", ifname: "eth0" },
        { containerId: "a\r\nb", ifname: "eth0" },
        { containerId: "a", ifname: "" },
        { containerId: "a", ifname: "e/0" },
        { containerId: "a", ifname: "e 0" },
        { containerId: "a", ifname: "e".repeat(16) },
      ]) {
        assert.throws(() => open().allocate(DUAL_STACK, owner, []), { code: "ERR_CONFIGURATION" }, owner.ifname);
        assert.throws(() => open().release(owner), { code: "ERR_CONFIGURATION" }, owner.ifname);
      }
      assert.deepEqual(readdirSync(directory()), []);
    });
  });

  describe("choosing an address", () => {
    it("I4: an owner is refused a second time, and another one gets the next address", () => {
      open().allocate(DUAL_STACK, POD, []);
      assert.throws(() => open().allocate(DUAL_STACK, POD, []), {
        code: "ERR_DUPLICATE",
        message:
          "failed to allocate for range 0: 10.1.2.2 has been allocated to c0ffee, duplicate allocation is not allowed",
      });
      assert.deepEqual(Object.keys(held()), ["10.1.2.2", "2001:db8:1::2"]);
      assert.deepEqual(got(open().allocate(DUAL_STACK, pod(1), [])), ["10.1.2.3/24", "2001:db8:1::3/64"]);
      const second = { ...POD, ifname: "net1" };
      assert.deepEqual(got(open().allocate(DUAL_STACK, second, [])), ["10.1.2.4/24", "2001:db8:1::4/64"]);
    });

    it("I4: a legacy reservation counts as a duplicate, and one in another range does not", () => {
      open().allocate(DUAL_STACK, pod(1), []);
      writeForeign(path("10.1.2.99"), POD.containerId);
      assert.throws(() => open().allocate(DUAL_STACK, POD, []), { code: "ERR_DUPLICATE" });
      const elsewhere = rangeSets(["10.5.0.0/24"]);
      assert.deepEqual(got(open().allocate(elsewhere, POD, [])), ["10.5.0.2/24"]);
      assert.throws(() => open().allocate(DUAL_STACK, POD, addresses("10.1.2.98")), { code: "ERR_DUPLICATE" });
    });

    it("I5: with a missing, empty or foreign last_reserved_ip only the position is lost", () => {
      open().allocate(DUAL_STACK, pod(1), []);
      for (const [n, content] of ["", "garbage", "192.0.2.9", "x".repeat(5000), "10.1.2.200\n"].entries()) {
        writeForeign(path("last_reserved_ip.0"), content);
        const expected = content.startsWith("10.1.2.200") ? "10.1.2.201/24" : `10.1.2.${n + 3}/24`;
        assert.equal(got(open().allocate(DUAL_STACK, pod(n + 2), []))[0], expected, JSON.stringify(content));
      }
    });

    it("I6: a taken address is refused with host-local's words, also to its holder, and nothing else is taken", () => {
      open().allocate(DUAL_STACK, POD, addresses("2001:db8:1::99", "10.1.2.9"));
      const before = held();
      for (const owner of [POD, pod(1)]) {
        assert.throws(() => open().allocate(DUAL_STACK, owner, addresses("10.1.2.9", "2001:db8:1::99")), {
          code: "ERR_ADDRESS_UNAVAILABLE",
          message:
            "failed to allocate for range 0: requested IP address 10.1.2.9 is not available in range set 10.1.2.1-10.1.2.254",
        });
      }
      assert.throws(() => open().allocate(DUAL_STACK, pod(1), addresses("2001:db8:1::99")), {
        message: /^failed to allocate for range 1: requested IP address 2001:db8:1::99 is not available/,
      });
      assert.deepEqual(held(), before);
    });
  });

  describe("a full range", () => {
    const full = rangeSets(["10.9.0.0/24"]);

    it("gives out 253 addresses of a /24, then fails after few calls, and takes nothing", () => {
      const store = open();
      const all = Array.from({ length: 253 }, (_, n) => got(store.allocate(full, pod(n), [], "caller"))[0]);
      assert.equal(new Set(all).size, 253);
      const calls: FileCall[] = [];
      assert.throws(() => open(recordingFileSystem(calls)).allocate(full, POD, [], "caller"), {
        code: "ERR_RANGE_EXHAUSTED",
        message: /^failed to allocate for range 0: no IP addresses available in range set: 10\.9\.0\.1-10\.9\.0\.254; /,
      });
      assert.ok(calls.length < 20, `${calls.length} calls`);
      assert.equal(calls.filter(({ method }) => method === "readDirectory").length, 1);
      assert.equal(Object.keys(held()).length, 253);
      open().release(pod(100));
      assert.deepEqual(
        got(open().allocate(full, POD, [], "caller")),
        ["10.9.0.102/24"],
        "the address that was released",
      );
    });
  });

  it("an ADD makes the same calls beside 3,000 reservations as in an empty store", () => {
    const sets = rangeSets(["10.64.0.0/16"], ["fd64::/64"]);
    const traceOf = (owner: Owner) => {
      const calls: FileCall[] = [];
      open(recordingFileSystem(calls)).allocate(sets, owner, [], "caller");
      return calls.map(({ method }) => method);
    };
    const empty = traceOf(pod(1));
    for (let n = 0; n < 3000; n++) writeForeign(path(`10.64.${128 + (n >> 8)}.${n & 255}`), `x${n}\r\neth0`);
    assert.deepEqual(traceOf(POD), empty);
    assert.ok(!empty.includes("readDirectory"));
  });

  describe("foreign files", () => {
    it("count as taken whatever they contain, and never stop a release", () => {
      open().allocate(DUAL_STACK, pod(1), []);
      writeForeign(path("10.1.2.3"), "");
      writeForeign(path("10.1.2.4"), "\u0000\uFFFF\r\n\r\n\r\n");
      writeForeign(path("10.1.2.5"), "x".repeat(1 << 20));
      mkdirSync(path("10.1.2.6"));
      symlinkSync("/dev/zero", path("10.1.2.7"));
      symlinkSync("/nonexistent", path("10.1.2.8"));
      symlinkSync(path("10.1.2.8"), path("10.1.2.9"));
      writeForeign(path("notes.txt"), "c0ffee\r\neth0");
      symlinkSync(path("notes.txt"), path("10.1.2.200"));
      assert.equal(got(open().allocate(DUAL_STACK, POD, []))[0], "10.1.2.10/24");
      assert.equal(got(open().allocate(DUAL_STACK, pod(2), []))[0], "10.1.2.11/24");
      assert.deepEqual(texts(open().release(POD)).toSorted(), ["10.1.2.10", "2001:db8:1::3"]);
      const kinds = open()
        .reservations()
        .slice(0, 9)
        .map(({ kind }) => kind);
      assert.deepEqual(kinds, ["owned", ...Array.from({ length: 7 }, () => "unreadable"), "owned"]);
    });

    it("are listed beside our reservations, by address with their owners", () => {
      open().allocate(DUAL_STACK, POD, []);
      writeForeign(path("10.1.2.10"), "old");
      assert.deepEqual(open().reservations(), [
        { kind: "owned", address: addresses("10.1.2.2")[0], owner: POD },
        { kind: "legacy", address: addresses("10.1.2.10")[0], containerId: "old" },
        { kind: "owned", address: addresses("2001:db8:1::2")[0], owner: POD },
      ]);
    });
  });
});
