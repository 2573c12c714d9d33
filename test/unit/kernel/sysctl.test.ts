import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { Errno } from "../../../kernel/syscall/errno.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { procSysctl } from "../../../kernel/sysctl.ts";

const sysctl = procSysctl(nodeSyscalls());

describe("kernel/sysctl", () => {
  const bad = [
    "",
    "/",
    "net/",
    "/net/ipv4/ip_forward",
    "net//ipv4",
    "net/ipv4/../../kernel/hostname",
    "net/./ipv4",
    "..",
    ".",
    "net/ipv4/conf/a b/forwarding",
    "net/ipv4/conf/eth0\n/forwarding",
    "net/ipv4/conf/\0/forwarding",
  ];
  for (const key of bad) {
    it(`refuses the key ${JSON.stringify(key)}`, () => {
      for (const use of [() => sysctl.read(key), () => sysctl.write(key, "1")]) {
        assert.throws(use, (error: unknown) => {
          assert.ok(error instanceof DrawbridgeError && error.code === "ERR_CONFIGURATION");
          return error.message.startsWith(`sysctl: ${JSON.stringify(key)} is not a key`);
        });
      }
    });
  }

  it("a setting is read without its newline, and one that the kernel lacks is undefined", () => {
    assert.equal(sysctl.read("kernel/ostype"), "Linux");
    assert.equal(sysctl.read("net/ipv4/no_such_setting"), undefined);
    assert.equal(sysctl.write("net/ipv4/no_such_setting", "1"), false);
  });

  it("the error names the key that cannot be read", () => {
    assert.throws(() => sysctl.read("net/ipv4"), {
      code: "ERR_SYSCALL",
      message: /^read \/proc\/sys\/net\/ipv4: EISDIR/,
    });
  });

  it("DEPLOY-06: where /proc/sys is read-only, settings are written to the node's, which the manifests mount", () => {
    const opened: string[] = [];
    const sysctlOfContainer = (mounted: number): ReturnType<typeof procSysctl> => {
      const open = (path: string): number => {
        opened.push(path);
        return path.startsWith("/host/") ? mounted : -Errno.EROFS;
      };
      return procSysctl({ ...nodeSyscalls(), open });
    };
    assert.throws(() => sysctlOfContainer(-Errno.EACCES).write("net/ipv4/ip_forward", "1"), /EACCES/);
    assert.deepEqual(opened, ["/proc/sys/net/ipv4/ip_forward", "/host/proc/sys/net/ipv4/ip_forward"]);
    assert.throws(() => sysctlOfContainer(-Errno.ENOENT).write("net/ipv4/ip_forward", "1"), /EROFS/, "not mounted");
  });
});
