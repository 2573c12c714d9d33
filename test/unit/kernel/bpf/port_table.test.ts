import assert from "node:assert/strict";
import { findPort, putPort } from "../../../../kernel/bpf/port_table.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { SyscallError } from "../../../../kernel/syscall/syscalls.ts";
import { FakeBpf, MAP_UPDATE_ELEM, PROG_ATTACH, PROG_GET_FD_BY_ID, PROG_QUERY } from "./fake_bpf.ts";

const MAC = parseMac("0a:58:0a:f4:01:07");

describe("kernel/bpf/port_table", () => {
  const REFUSALS = { 0: "ENOSYS", 5: "EPERM", 8: "EINVAL", 16: "EINVAL" } as const;
  for (const [command, errno] of Object.entries(REFUSALS)) {
    it(`BYPASS-02: there is no table where the kernel answers ${errno} to command ${command}, and nothing stays open`, () => {
      const kernel = new FakeBpf({ [Number(command)]: [-Errno[errno]] });
      assert.equal(putPort(kernel, 3, MAC, 7), false);
      assert.deepEqual([...kernel.descriptors], []);
      assert.ok(!kernel.asked.includes(MAP_UPDATE_ELEM));
    });
  }

  it("BYPASS-02: putPort tries again when another program was attached meanwhile, and returns false after several tries", () => {
    const once = new FakeBpf({ [PROG_ATTACH]: [-Errno.ESTALE] });
    assert.equal(putPort(once, 3, MAC, 7), true);
    assert.equal(once.asked.filter((command) => command === PROG_QUERY).length, 2);
    assert.deepEqual([...once.descriptors], []);
    const always = new FakeBpf({ [PROG_ATTACH]: Array.from({ length: 99 }, () => -Errno.ESTALE) });
    assert.equal(putPort(always, 3, MAC, 7), false);
    assert.deepEqual([...always.descriptors], []);
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
    assert.deepEqual([...kernel.descriptors], []);
  });

  it("BYPASS-03: findPort creates no table", () => {
    const kernel = new FakeBpf({});
    assert.equal(findPort(kernel, 3, MAC), undefined);
    assert.deepEqual(kernel.asked, [PROG_QUERY]);
  });
});
