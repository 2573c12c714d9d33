import assert from "node:assert/strict";
import { findPort, putPort } from "../../../../kernel/bpf/port_table.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import type { BpfCall } from "../../../../kernel/syscall/bpf_calls.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { SyscallError } from "../../../../kernel/syscall/syscalls.ts";

const MAP_UPDATE_ELEM = 2;
const PROG_ATTACH = 8;
const PROG_GET_FD_BY_ID = 13;
const PROG_QUERY = 16;
/** The index of query.count in union bpf_attr. */
const COUNT = 24;
const MAC = parseMac("0a:58:0a:f4:01:07");

/** A kernel that answers commands from the lists in `answers` in turn, and otherwise with a new descriptor or 0. */
class FakeBpf {
  readonly asked: number[] = [];
  readonly open = new Set<number>();
  /** The map and the value of each update. */
  readonly updates: (readonly [map: number, value: readonly number[]])[] = [];
  readonly #answers: Map<number, number[]>;
  #next = 10;

  readonly #attached: number;

  /** @param attached the number of programs at the link */
  constructor(answers: Readonly<Record<number, readonly number[]>>, attached = 0) {
    this.#attached = attached;
    this.#answers = new Map(Object.entries(answers).map(([command, list]) => [Number(command), [...list]]));
  }

  readonly bpf: BpfCall = (command, attributes, arrays) => {
    this.asked.push(command);
    if (command === MAP_UPDATE_ELEM) this.updates.push([attributes[0] ?? 0, [...(arrays[1]?.array ?? [])]]);
    // The kernel replaces the room for programs by their number.
    if (command === PROG_QUERY) attributes[COUNT] = this.#attached;
    return this.#answers.get(command)?.shift() ?? 0;
  };

  readonly openBpf: BpfCall = (command) => {
    this.asked.push(command);
    const refusal = this.#answers.get(command)?.shift();
    if (refusal !== undefined && refusal < 0) return refusal;
    this.open.add(this.#next);
    return this.#next++;
  };

  readonly close = (fd: number): number => (this.open.delete(fd) ? 0 : -Errno.EBADF);
}

describe("kernel/bpf/port_table", () => {
  const REFUSALS = { 0: "ENOSYS", 5: "EPERM", 8: "EINVAL", 16: "EINVAL" } as const;
  for (const [command, errno] of Object.entries(REFUSALS)) {
    it(`BYPASS-02: there is no table where the kernel answers ${errno} to command ${command}, and nothing stays open`, () => {
      const kernel = new FakeBpf({ [Number(command)]: [-Errno[errno]] });
      assert.equal(putPort(kernel, 3, MAC, 7), false);
      assert.deepEqual([...kernel.open], []);
      assert.ok(!kernel.asked.includes(MAP_UPDATE_ELEM));
    });
  }

  it("BYPASS-02: putPort tries again when another program was attached meanwhile, and returns false after several tries", () => {
    const once = new FakeBpf({ [PROG_ATTACH]: [-Errno.ESTALE] });
    assert.equal(putPort(once, 3, MAC, 7), true);
    assert.equal(once.asked.filter((command) => command === PROG_QUERY).length, 2);
    assert.deepEqual([...once.open], []);
    const always = new FakeBpf({ [PROG_ATTACH]: Array.from({ length: 99 }, () => -Errno.ESTALE) });
    assert.equal(putPort(always, 3, MAC, 7), false);
    assert.deepEqual([...always.open], []);
  });

  it("BYPASS-03: an entry is changed so that no frame to its former address gets its new port", () => {
    const kernel = new FakeBpf({});
    assert.equal(putPort(kernel, 3, MAC, 7), true);
    const [[macs, none] = [], [ports, port] = [], [again, mac] = []] = kernel.updates;
    assert.equal(kernel.updates.length, 3);
    assert.deepEqual([none, port, mac], [Array(8).fill(0), [7, 0, 0, 0], [0x0a, 0x58, 0x0a, 0xf4, 0x01, 0x07, 0, 0]]);
    assert.equal(macs, again);
    assert.notEqual(macs, ports);
  });

  it("BYPASS-02: no second program is attached where the owner of the first cannot be read", () => {
    const kernel = new FakeBpf({ [PROG_GET_FD_BY_ID]: [-Errno.EPERM] }, 1);
    assert.equal(putPort(kernel, 3, MAC, 7), false);
    assert.ok(!kernel.asked.includes(PROG_ATTACH));
    const gone = new FakeBpf({ [PROG_GET_FD_BY_ID]: [-Errno.ENOENT] }, 1);
    assert.equal(putPort(gone, 3, MAC, 7), true);
    assert.ok(gone.asked.includes(PROG_ATTACH));
  });

  it("BYPASS-03: a table that cannot be changed is an error, since it may lead to a removed port", () => {
    const kernel = new FakeBpf({ [MAP_UPDATE_ELEM]: [-Errno.EPERM] });
    assert.throws(
      () => putPort(kernel, 3, MAC, 7),
      (error) => error instanceof SyscallError && error.errnoName === "EPERM",
    );
    assert.deepEqual([...kernel.open], []);
  });

  it("BYPASS-03: findPort creates no table", () => {
    const kernel = new FakeBpf({});
    assert.equal(findPort(kernel, 3, MAC), undefined);
    assert.deepEqual(kernel.asked, [PROG_QUERY]);
  });
});
