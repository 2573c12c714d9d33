import assert from "node:assert/strict";
import { refuseUnfitKernel } from "../../../../policyd/checks/kernel.ts";

const accepted = { operation: "add table inet t", needs: () => ["table inet"], refusal: undefined };
const refused = { operation: "add table bridge t", needs: () => ["table bridge"], refusal: "operation not supported" };

const logging = { operation: "add rule inet t", needs: () => ["meta", "log"], refusal: "no such file" };
const hasPacketLog = true;

describe("policyd/checks: a kernel that cannot have the daemon's tables", () => {
  it("BAD-03: a kernel that takes all tables is not refused, even if it logs no packets, nor one on which they could not be tried", () => {
    refuseUnfitKernel({
      release: { value: "6.1.0-56-cloud-amd64" },
      trials: { value: [accepted] },
      hasPacketLog: false,
    });
    refuseUnfitKernel({ release: { value: "6.1.0" }, trials: { unseen: "no answer" }, hasPacketLog });
  });

  it("BAD-03: the refusal names all that is missing in one line, with the way out", () => {
    const trials = { value: [accepted, refused] };
    assert.throws(() => refuseUnfitKernel({ release: { value: "4.18.0-553.el8" }, trials, hasPacketLog }), {
      code: "ERR_NETLINK",
      message:
        /^kernel 4\.18\.0.*way out: boot a later kernel[^\n]*; the kernel has no nftables tables of the family bridge \(CONFIG_NF_TABLES_BRIDGE\): [^\n]*=y$/,
    });
  });

  it("BAD-03: rules that log are refused by the part that is missing: the instruction, or packet logging", () => {
    const trials = { value: [accepted, { ...accepted, needs: () => ["meta"] }, logging] };
    for (const [has, module] of [
      [true, /CONFIG_NFT_LOG.*modprobe nft_log;/],
      [false, /^[^;]*CONFIG_NETFILTER_NETLINK_LOG.*modprobe nfnetlink_log;[^;]*$/],
    ] as const) {
      const kernel = { release: { value: "6.1.0" }, trials, hasPacketLog: has };
      assert.throws(() => refuseUnfitKernel(kernel), module);
    }
  });
});
