import assert from "node:assert/strict";
import { fakeSysctl } from "../../../support/fake_sysctl.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { SyscallError } from "../../../../kernel/syscall/syscalls.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { conntrackSettings, raiseSettings } from "../../../../policyd/node/conntrack_settings.ts";

const DEFAULTS = {
  conntrackMaxPerCore: 32_768,
  conntrackMin: 131_072,
  conntrackEstablishedTimeout: 86_400_000,
  conntrackCloseWaitTimeout: 3_600_000,
};
const MAX = "net/netfilter/nf_conntrack_max";
const ESTABLISHED = "net/netfilter/nf_conntrack_tcp_timeout_established";
const CLOSE_WAIT = "net/netfilter/nf_conntrack_tcp_timeout_close_wait";

function valuesFor(changes: Partial<typeof DEFAULTS>, processors: number): Readonly<Record<string, number>> {
  const settings = conntrackSettings({ ...DEFAULTS, ...changes }, processors);
  return Object.fromEntries(settings.map(({ key, value }) => [key, value]));
}

describe("policyd/node: settings of connection tracking", () => {
  it("SYSCTL-01: settings equal kube-proxy's: room by processors with a minimum, and 0 leaves a setting unchanged", () => {
    assert.deepEqual(valuesFor({}, 2), { [MAX]: 131_072, [ESTABLISHED]: 86_400, [CLOSE_WAIT]: 3600 });
    assert.equal(valuesFor({}, 64)[MAX], 2_097_152);
    assert.equal(valuesFor({ conntrackMin: 0 }, 1)[MAX], 32_768);
    assert.deepEqual(valuesFor({ conntrackMaxPerCore: 0, conntrackEstablishedTimeout: 0 }, 8), {
      [MAX]: 0,
      [ESTABLISHED]: 0,
      [CLOSE_WAIT]: 3600,
    });
  });

  it("SYSCTL-01: settings are raised and never lowered", () => {
    const present = new Map([
      [MAX, "262144"],
      [ESTABLISHED, "432000"],
      [CLOSE_WAIT, "60"],
    ]);
    const logger = recordingLogger();
    raiseSettings(conntrackSettings(DEFAULTS, 2), fakeSysctl(present), logger, () => assert.fail());
    assert.deepEqual([...present.values()], ["262144", "432000", "3600"]);
    assert.deepEqual(
      logger.lines.map(({ level, fields }) => ({ level, ...fields })),
      [{ level: "info", setting: "net.netfilter.nf_conntrack_tcp_timeout_close_wait", before: 60, after: 3600 }],
    );
  });

  it("SYSCTL-01: an unbounded table (0) stays unbounded, and a timeout of 0 is raised", () => {
    const present = new Map([MAX, ESTABLISHED, CLOSE_WAIT].map((key) => [key, "0"]));
    raiseSettings(conntrackSettings(DEFAULTS, 2), fakeSysctl(present), recordingLogger(), () => assert.fail());
    assert.deepEqual([...present.values()], ["0", "86400", "3600"]);
  });

  it("SYSCTL-01: a setting that cannot be read or written is reported, and the others are raised", () => {
    const present = new Map([
      [MAX, "65536"],
      [CLOSE_WAIT, "60"],
    ]);
    const sysctl = fakeSysctl(present);
    const logger = recordingLogger();
    const write = (key: string, value: string): boolean => {
      if (key === MAX) throw new SyscallError(`open /proc/sys/${MAX}`, 30);
      return sysctl.write(key, value);
    };
    raiseSettings(conntrackSettings(DEFAULTS, 2), { ...sysctl, write }, logger, () => assert.fail());
    assert.deepEqual([...present.values()], ["65536", "3600"]);
    const warnings = logger.lines.filter(({ level }) => level === "warn");
    assert.deepEqual(
      warnings.map(({ fields }) => fields["setting"]),
      ["net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_tcp_timeout_established"],
    );
    assert.match(String(warnings[0]?.fields["reason"]), /cannot be written here: .*EROFS.*sysctl/);
    assert.match(String(warnings[1]?.fields["reason"]), /does not have it/);
  });

  it("SYSCTL-01: a setting whose value from before cannot be stored is tried again until it can, and the others are not", () => {
    const present = new Map([MAX, ESTABLISHED, CLOSE_WAIT].map((key) => [key, "60"]));
    const sysctl = fakeSysctl(present);
    const written: string[] = [];
    let isFull = true;
    const write = (key: string, value: string): boolean => {
      if (key !== MAX && isFull) throw new DrawbridgeError("ERR_STORE", "no space left on device (ENOSPC)");
      written.push(key);
      return sysctl.write(key, value);
    };
    const waiting: (() => void)[] = [];
    raiseSettings(conntrackSettings(DEFAULTS, 2), { ...sysctl, write }, recordingLogger(), (action) => {
      waiting.push(action);
    });
    waiting.shift()?.();
    isFull = false;
    waiting.shift()?.();
    assert.deepEqual(written, [MAX, ESTABLISHED, CLOSE_WAIT]);
    assert.deepEqual(waiting, []);
  });
});
