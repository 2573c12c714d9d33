import assert from "node:assert/strict";
import fc from "fast-check";
import { trackDescriptors } from "../../../../cni/server/descriptors.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { fakeNode } from "../../../support/cni/fake_node.ts";

/** Returns system calls that give the lowest free number, as the kernel does, and the set of open numbers. */
function numbering(): { readonly open: Set<number>; readonly tracked: ReturnType<typeof trackDescriptors> } {
  const open = new Set<number>();
  const lowest = (): number => {
    let fd = 3;
    while (open.has(fd)) fd++;
    open.add(fd);
    return fd;
  };
  const syscalls = {
    ...fakeNode("/nowhere").syscalls,
    socket: lowest,
    open: (path: string) => (path === "" ? -Errno.ENOENT : lowest()),
    close: (fd: number) => (open.delete(fd) ? 0 : -Errno.EBADF),
  };
  return { open, tracked: trackDescriptors(syscalls) };
}

describe("cni/server/descriptors", () => {
  it("SERVER-05: a second close is refused, since the number may belong to another call by then", () => {
    const { open, tracked } = numbering();
    const fd = tracked.syscalls.socket(1, 1, 0);
    assert.equal(tracked.syscalls.close(fd), 0);
    assert.equal(addOther(open), fd);
    assert.equal(tracked.syscalls.close(fd), -Errno.EBADF);
    assert.ok(open.has(fd));
  });

  it("SERVER-05: after a call exactly the descriptors are closed that it has opened and not closed", () => {
    const steps = fc.array(fc.constantFrom("socket", "open", "missing", "close", "other", "throw"), { maxLength: 30 });
    fc.assert(
      fc.property(steps, (actions) => {
        const { open, tracked } = numbering();
        const others = new Set<number>();
        const work = (): void => {
          for (const action of actions) {
            const [first] = [...open].filter((fd) => !others.has(fd));
            if (action === "socket") tracked.syscalls.socket(1, 1, 0);
            else if (action === "open") tracked.syscalls.open("/x", 0, 0);
            else if (action === "missing") assert.equal(tracked.syscalls.open("", 0, 0), -Errno.ENOENT);
            else if (action === "close" && first !== undefined) tracked.syscalls.close(first);
            else if (action === "other") others.add(addOther(open));
            else if (action === "throw") throw new RangeError("the call fails here");
          }
        };
        try {
          work();
        } catch (error) {
          assert.ok(error instanceof RangeError);
        }
        tracked.closeAll();
        assert.deepEqual(open, others);
        // A number may belong to another call by now.
        tracked.closeAll();
        assert.deepEqual(open, others);
      }),
    );
  });
});

/** Opens a descriptor of another call. */
function addOther(open: Set<number>): number {
  let fd = 3;
  while (open.has(fd)) fd++;
  open.add(fd);
  return fd;
}
