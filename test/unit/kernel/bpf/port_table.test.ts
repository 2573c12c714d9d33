import assert from "node:assert/strict";
import { forgetPort, PORT_PROGRAM, putPort } from "../../../../kernel/bpf/port_table.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { FakeBpf, FakeClassifiers, MAP_UPDATE_ELEM, PROG_GET_FD_BY_ID, PROG_LOAD } from "./fake_bpf.ts";

const MAC = parseMac("0a:58:0a:f4:01:07");

function put(syscalls: FakeBpf, socket = new FakeClassifiers(PORT_PROGRAM)): boolean {
  return putPort({ syscalls, socket }, 3, MAC, 7);
}

describe("kernel/bpf/port_table", () => {
  const REFUSALS = { 0: "ENOSYS", [PROG_LOAD]: "EPERM" } as const;
  for (const [command, errno] of Object.entries(REFUSALS)) {
    it(`BYPASS-01: there is no table where the kernel answers ${errno} to command ${command}, and nothing stays open`, () => {
      const kernel = new FakeBpf({ [Number(command)]: [-Errno[errno]] });
      assert.equal(put(kernel), false);
      assert.deepEqual([...kernel.descriptors], []);
      assert.ok(!kernel.asked.includes(MAP_UPDATE_ELEM));
    });
  }

  it("BYPASS-01: putPort uses the table of another process that makes one at the same time", () => {
    const kernel = new FakeBpf();
    assert.equal(put(kernel, new FakeClassifiers(PORT_PROGRAM, undefined, ["EEXIST"])), true);
    assert.ok(kernel.asked.includes(PROG_GET_FD_BY_ID));
    assert.deepEqual([...kernel.descriptors], []);
  });

  it("BYPASS-03: an entry is changed so that no frame to its former address gets its new port", () => {
    const kernel = new FakeBpf();
    assert.equal(put(kernel), true);
    const [[macs, none] = [], [ports, port] = [], [again, mac] = []] = kernel.updates;
    assert.equal(kernel.updates.length, 3);
    assert.deepEqual([none, port, mac], [Array(8).fill(0), [7, 0, 0, 0], [0x0a, 0x58, 0x0a, 0xf4, 0x01, 0x07, 0, 0]]);
    assert.equal(macs, again);
    assert.notEqual(macs, ports);
  });

  it("BYPASS-01: no second program is added where the maps of the first cannot be read", () => {
    const kernel = new FakeBpf({ [PROG_GET_FD_BY_ID]: [-Errno.EPERM] });
    const socket = new FakeClassifiers(PORT_PROGRAM, PORT_PROGRAM.name);
    assert.equal(put(kernel, socket), false);
    assert.equal(socket.added, 0);
  });

  it("BYPASS-03: forgetPort creates no table", () => {
    const syscalls = new FakeBpf();
    const socket = new FakeClassifiers(PORT_PROGRAM);
    forgetPort({ syscalls, socket }, 3, MAC);
    assert.deepEqual([syscalls.asked, socket.added], [[], 0]);
  });
});
