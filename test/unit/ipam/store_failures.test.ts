import assert from "node:assert/strict";
import type { AddressStore, Owner } from "../../../ipam/store.ts";
import {
  dualStack,
  failingFileSystem,
  FakeLock,
  type FileCall,
  hookedFileSystem,
  Killed,
  killedFileSystem,
  pod,
  realFileSystem,
  recordingFileSystem,
  useAddressStore,
} from "../../support/ipam/address_store.ts";

const DUAL_STACK = dualStack();
const POD: Owner = { containerId: "c0ffee", ifname: "eth0" };

describe("ipam/store: failures", () => {
  const { directory, path, open, held, scratch } = useAddressStore();

  /** Returns the number of file system calls of an action: the places where it can fail or be killed. */
  const callsOf = (action: (store: AddressStore) => void): number => {
    const calls: FileCall[] = [];
    action(open(recordingFileSystem(calls)));
    return calls.length;
  };

  const allocateOnce = (store: AddressStore) => void store.allocate(DUAL_STACK, POD, []);

  function assertIntact(owners: readonly Owner[]): void {
    const contents = owners.map(({ containerId, ifname }) => `${containerId}\r\n${ifname}`);
    for (const [name, content] of Object.entries(held())) assert.ok(contents.includes(content), `${name}: ${content}`);
  }

  function assertRestored(owner: Owner): void {
    open().release(owner);
    assert.ok(!Object.values(held()).includes(`${owner.containerId}\r\n${owner.ifname}`));
    assert.equal(open().allocate(DUAL_STACK, owner, []).length, 2);
    assert.deepEqual(scratch(), []);
    open().release(owner);
  }

  const store = (index: number, extent: "once" | "from", code: "ENOSPC" | "EIO" | "EROFS" | "EACCES") =>
    open(failingFileSystem(index, extent, code));

  it("after one failing call an ADD fails with path and errno, or is complete, and nothing is half done", () => {
    open().allocate(DUAL_STACK, pod(1), []);
    const count = callsOf(allocateOnce);
    open().release(POD);
    assert.ok(count > 10);
    for (const code of ["ENOSPC", "EIO", "EROFS", "EACCES"] as const) {
      for (let index = 0; index < count; index++) {
        let failure: unknown;
        try {
          allocateOnce(store(index, "once", code));
        } catch (error) {
          failure = error;
        }
        assertIntact([pod(1), POD]);
        const mine = Object.values(held()).filter((content) => content.startsWith("c0ffee")).length;
        assert.equal(mine, failure === undefined ? 2 : 0, `call ${index} ${code}`);
        if (failure !== undefined) {
          assert.ok(failure instanceof Error && "code" in failure);
          assert.equal(failure.code, "ERR_STORE");
          assert.ok(failure.message.includes(code) && failure.message.includes(directory()), failure.message);
        }
        assertRestored(POD);
      }
    }
  });

  it("one release restores the store after a disk fails permanently from any call on", () => {
    open().allocate(DUAL_STACK, pod(1), []);
    const count = callsOf(allocateOnce);
    open().release(POD);
    for (let index = 0; index < count - 1; index++) {
      assert.throws(() => allocateOnce(store(index, "from", "EIO")), { code: "ERR_STORE" }, `call ${index}`);
      assertIntact([pod(1), POD]);
      assertRestored(POD);
    }
  });

  it("a release with one failing call reports it or is complete, and the next release finishes", () => {
    const release = (one: AddressStore) => void one.release(POD);
    open().allocate(DUAL_STACK, pod(1), []);
    open().allocate(DUAL_STACK, POD, []);
    const count = callsOf(release);
    for (let index = 0; index < count; index++) {
      open().allocate(DUAL_STACK, POD, []);
      try {
        release(store(index, "once", "EIO"));
      } catch (error) {
        assert.ok(error instanceof Error && "code" in error && error.code === "ERR_STORE");
      }
      assertRestored(POD);
    }
    assert.deepEqual(new Set(Object.values(held())), new Set(["pod-1\r\neth0"]));
  });

  it("a release that cannot read any reservation fails, so that no address is forgotten", () => {
    open().allocate(DUAL_STACK, POD, []);
    const unreadable = hookedFileSystem(({ method, path: file }) => {
      if (method === "readSmallFile") realFileSystem.rename(`${file}/missing`, file);
    });
    assert.throws(() => open(unreadable).release(POD), { code: "ERR_STORE" });
    assert.equal(Object.keys(held()).length, 2);
  });

  it("after SIGKILL before any call of an ADD no file is empty or torn, and a release restores the store", () => {
    open().allocate(DUAL_STACK, pod(1), []);
    const count = callsOf(allocateOnce);
    open().release(POD);
    for (let index = 0; index < count; index++) {
      assert.throws(() => allocateOnce(open(killedFileSystem(index))), Killed);
      assertIntact([pod(1), POD]);
      assertRestored(POD);
    }
  });

  it("after SIGKILL during a claim the next ADD does not write through the leftover inode", () => {
    open().allocate(DUAL_STACK, pod(1), []);
    const calls: FileCall[] = [];
    open(recordingFileSystem(calls)).allocate(DUAL_STACK, POD, []);
    open().release(POD);
    const linked = calls.findIndex(({ method }) => method === "link") + 1;
    assert.throws(() => allocateOnce(open(killedFileSystem(linked))), Killed);
    assert.ok(scratch().includes("podnet.claim"));
    open().allocate(DUAL_STACK, pod(2), []);
    const contents = Object.values(held()).toSorted();
    assert.deepEqual(contents, ["c0ffee\r\neth0", "pod-1\r\neth0", "pod-1\r\neth0", "pod-2\r\neth0", "pod-2\r\neth0"]);
    assert.deepEqual(scratch(), []);
  });

  it("after SIGKILL before any call of a release the next release finishes", () => {
    open().allocate(DUAL_STACK, pod(1), []);
    open().allocate(DUAL_STACK, POD, []);
    const count = callsOf((one) => void one.release(POD));
    for (let index = 0; index < count; index++) {
      open().allocate(DUAL_STACK, POD, []);
      assert.throws(() => open(killedFileSystem(index)).release(POD), Killed);
      assertIntact([pod(1), POD]);
      assertRestored(POD);
    }
  });

  it("the lock is released after a failure", () => {
    const lock = new FakeLock();
    assert.throws(() => open(failingFileSystem(3, "once", "EIO"), lock).allocate(DUAL_STACK, POD, []));
    assert.deepEqual([lock.paths, lock.held], [[path("lock")], false]);
  });
});
