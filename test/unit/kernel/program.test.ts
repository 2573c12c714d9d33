import assert from "node:assert/strict";
import { runProgram } from "../../../kernel/program.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { SyscallError } from "../../../kernel/syscall/syscalls.ts";
import { FakePrograms } from "../../support/programs/fake_programs.ts";

const PROGRAM = {
  file: "/plugins/other-ipam",
  environment: { CNI_COMMAND: "ADD" },
  stdin: "{}",
  inherited: undefined,
  milliseconds: 1000,
  longestOutput: 1000,
};

describe("kernel/program", () => {
  it("runProgram returns the output and the exit code of a program that ends", () => {
    assert.deepEqual(runProgram(new FakePrograms({ ips: [] }, () => undefined), PROGRAM), {
      kind: "exited",
      code: 0,
      stdout: '{"ips":[]}',
    });
  });

  it('runProgram throws for a program that cannot be started, and returns "unknown" when its exit code is lost', () => {
    const refused = new FakePrograms({}, () => -Errno.EACCES);
    assert.throws(() => runProgram(refused, PROGRAM), SyscallError);
    // ECHILD (10) of wait4(2).
    const lost = Object.assign(new FakePrograms({}, () => undefined), { state: () => -10 });
    assert.deepEqual(runProgram(lost, PROGRAM), { kind: "unknown" });
  });
});
