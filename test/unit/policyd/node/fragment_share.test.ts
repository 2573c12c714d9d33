import assert from "node:assert/strict";
import { formatRule } from "../../../../kernel/nftables/text/rule_text.ts";
import { fakeSysctl } from "../../../support/fake_sysctl.ts";
import { Errno } from "../../../../kernel/syscall/errno.ts";
import { SyscallError } from "../../../../kernel/syscall/syscalls.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import {
  affordableFragmentMemory,
  fragmentSettings,
  raiseSettings,
  reassemblyInForce,
} from "../../../../policyd/node/conntrack_settings.ts";
import { fragmentRates, fragmentShare, REASSEMBLY_SECONDS } from "../../../../policyd/node/tables/fragment_share.ts";

const MEBIBYTE = 1024 * 1024;
const FRAGMENT_BYTES = 5 * 1024;
const LARGE_FRAGMENT_BYTES = 20 * 1024;

describe("policyd/node: pods' shares of the fragment memory", () => {
  it("SHARE-01: pods' shares and the pool together always leave a quarter of the memory to the node", () => {
    for (const [mebibytes, seconds] of [
      [256, REASSEMBLY_SECONDS],
      [512, REASSEMBLY_SECONDS],
      [1024, REASSEMBLY_SECONDS],
      [2047, 5],
    ] as const) {
      const { share, pool, most, largePool } = fragmentRates({ mebibytes, seconds });
      // The fragments of a burst, and those of the seconds until the first ones have expired.
      const kept = (rate: number): number => rate * (1 + seconds);
      const inAll = (256 * kept(share) + kept(pool)) * FRAGMENT_BYTES + kept(largePool) * LARGE_FRAGMENT_BYTES;
      assert.ok(inAll <= 0.751 * mebibytes * MEBIBYTE, `${inAll / MEBIBYTE} of ${mebibytes}`);
      assert.ok(share >= 1 && most <= Math.ceil(pool / 2));
    }
  });

  it("SHARE-01: fragments are counted by source before they are reassembled, and large ones count four times", () => {
    const whole = { mebibytes: 512, seconds: REASSEMBLY_SECONDS };
    const part = fragmentShare("cni0", { 4: { mebibytes: 4, seconds: 60 }, 6: whole });
    const rulesOf = (name: string): readonly string[] =>
      (part.chains.find((chain) => chain.name === name)?.rules ?? []).map((rule) => formatRule(rule, "inet"));
    assert.deepEqual(
      part.shared?.before_reassembly?.map((rule) => formatRule(rule, "inet")),
      ['iifname "cni0" ip frag-off & 16383 != 0 goto fragments4', 'iifname "cni0" exthdr frag exists goto fragments6'],
    );
    assert.deepEqual(rulesOf("fragments6"), [
      "ip6 length != 1-1460 goto large_fragments6",
      "update @fragments6 { ip6 saddr limit rate 51/second burst 51 packets } accept",
      "update @fragments_beyond6 { ip6 saddr limit rate 4369/second burst 4369 packets } " +
        "limit rate 8738/second burst 8738 packets accept",
      'counter drop comment "fragments beyond the share of a pod"',
    ]);
    const own = "update @fragments4 { ip saddr limit rate 1/second burst 1 packets }";
    assert.deepEqual(rulesOf("large_fragments4").slice(0, 2), [
      'ip length != 20-9216 counter drop comment "fragments beyond the share of a pod"',
      `${own} ${own} ${own} ${own} accept`,
    ]);
  });

  it("SHARE-01: the kernel gets more memory and shorter timeouts, and settings that are further in that direction stay", () => {
    const present = new Map([
      ["net/ipv4/ipfrag_high_thresh", "4194304"],
      ["net/netfilter/nf_conntrack_frag6_high_thresh", String(2 ** 30)],
      ["net/ipv4/ipfrag_time", "30"],
      ["net/netfilter/nf_conntrack_frag6_timeout", "1"],
    ]);
    raiseSettings(fragmentSettings(512), fakeSysctl(present), recordingLogger(), () => assert.fail());
    raiseSettings(fragmentSettings(0), fakeSysctl(present), recordingLogger(), () => assert.fail());
    assert.deepEqual([...present.values()], [String(512 * MEBIBYTE), String(2 ** 30), "2", "1"]);
  });

  it("SHARE-01: shares are those of the memory and the time that the kernel has taken", () => {
    const present = new Map([
      ["net/ipv4/ipfrag_high_thresh", "4194304"],
      ["net/netfilter/nf_conntrack_frag6_high_thresh", "4194304"],
      ["net/ipv4/ipfrag_time", "30"],
      ["net/netfilter/nf_conntrack_frag6_timeout", "60"],
    ]);
    const sysctl = fakeSysctl(present);
    const deaf = {
      read: (key: string) => sysctl.read(key),
      write: (key: string, value: string): boolean => {
        // Some kernels refuse a setting (EINVAL), others accept the write and keep their own value.
        if (key.endsWith("frag6_high_thresh")) throw new SyscallError(`write ${key}`, Errno.EINVAL);
        return key.endsWith("frag6_timeout") || sysctl.write(key, value);
      },
    };
    const logger = recordingLogger();
    raiseSettings(fragmentSettings(512), deaf, logger, () => assert.fail());
    assert.deepEqual(reassemblyInForce(512, deaf), {
      4: { mebibytes: 512, seconds: REASSEMBLY_SECONDS },
      6: { mebibytes: 4, seconds: 60 },
    });
    const warnings = logger.lines.flatMap(({ level, fields }) => (level === "warn" ? [String(fields["reason"])] : []));
    assert.match(warnings[0] ?? "", /^the kernel does not take it: .*EINVAL/);
    assert.deepEqual(warnings.slice(1), ["the kernel left it at 60"]);
  });

  it("SHARE-01: more memory than was asked for, and settings that cannot be read, count as asked for", () => {
    const present = new Map([["net/ipv4/ipfrag_high_thresh", String(2 ** 30)]]);
    const asked = { mebibytes: 512, seconds: REASSEMBLY_SECONDS };
    assert.deepEqual(reassemblyInForce(512, fakeSysctl(present)), { 4: asked, 6: asked });
  });

  it("SHARE-01: a machine gives at most a thirty-second of its memory, or the kernel's own default", () => {
    assert.equal(affordableFragmentMemory(512, 64 * 1024 * MEBIBYTE), 512);
    assert.equal(affordableFragmentMemory(512, 4 * 1024 * MEBIBYTE), 128);
    assert.equal(affordableFragmentMemory(512, 64 * MEBIBYTE), 4);
    assert.equal(affordableFragmentMemory(0, 64 * 1024 * MEBIBYTE), 0);
  });
});
