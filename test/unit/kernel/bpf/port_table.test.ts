import assert from "node:assert/strict";
import { clearPort, findPort, putPort } from "../../../../kernel/bpf/port_table.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import type { BpfCall } from "../../../../kernel/syscall/bpf_calls.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { SyscallError } from "../../../../kernel/syscall/syscalls.ts";

const MAP_UPDATE_ELEM = 2;
const PROG_ATTACH = 8;
const PROG_QUERY = 16;
/** Of union bpf_attr, query.count. */
const COUNT = 24;
const MAC = parseMac("0a:58:0a:f4:01:07");

/** A kernel that answers commands by what `answers` says, in turn, and else with a new descriptor or 0. */
class FakeBpf {
  readonly asked: number[] = [];
  readonly open = new Set<number>();
  readonly #answers: Map<number, number[]>;
  #next = 10;

  constructor(answers: Readonly<Record<number, readonly number[]>>) {
    this.#answers = new Map(Object.entries(answers).map(([command, list]) => [Number(command), [...list]]));
  }

  readonly bpf: BpfCall = (command, attributes) => {
    this.asked.push(command);
    // None are attached: how many there is room for becomes how many there are.
    if (command === PROG_QUERY) attributes[COUNT] = 0;
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
    it(`BYPASS-02: has no table where the kernel answers ${errno} to command ${command}, and leaves nothing open`, () => {
      const kernel = new FakeBpf({ [Number(command)]: [-Errno[errno]] });
      assert.equal(putPort(kernel, 3, MAC, 7), false);
      assert.deepEqual([...kernel.open], []);
      assert.ok(!kernel.asked.includes(MAP_UPDATE_ELEM));
    });
  }

  it("BYPASS-02: looks again when another's program was attached meanwhile, and gives up after some times", () => {
    const once = new FakeBpf({ [PROG_ATTACH]: [-Errno.ESTALE] });
    assert.equal(putPort(once, 3, MAC, 7), true);
    assert.equal(once.asked.filter((command) => command === PROG_QUERY).length, 2);
    assert.deepEqual([...once.open], []);
    const always = new FakeBpf({ [PROG_ATTACH]: Array.from({ length: 99 }, () => -Errno.ESTALE) });
    assert.equal(putPort(always, 3, MAC, 7), false);
    assert.deepEqual([...always.open], []);
  });

  it("BYPASS-03: a table that cannot be changed is an error, as it may lead to a port that has gone", () => {
    const kernel = new FakeBpf({ [MAP_UPDATE_ELEM]: [-Errno.EPERM] });
    assert.throws(
      () => putPort(kernel, 3, MAC, 7),
      (error) => error instanceof SyscallError && error.errnoName === "EPERM",
    );
    assert.deepEqual([...kernel.open], []);
  });

  it("BYPASS-03: makes no table to take something out", () => {
    const kernel = new FakeBpf({});
    clearPort(kernel, 3, MAC);
    assert.equal(findPort(kernel, 3, MAC), undefined);
    assert.deepEqual(kernel.asked, [PROG_QUERY, PROG_QUERY]);
  });
});
