import process from "node:process";
import { npmPackage } from "../../setup/npm_package.mjs";

/** The hashes of npm's packages of Node, by version and processor. The oldest is that of `engines` in package.json. */
const HASHES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "20.18.0": {
    x64: "sha512-GxGTXDoCCOeC3uW5UGYJi/2EHXeQrlQzU9qjieEuS3VGRYgSUwDLLpYletFTAePMdfVIqtanaKqsLozTJpe4rg==",
    arm64: "sha512-Mf1IB4Atgk3YtpOzriZKm6jEAE93Or551twUqLoBsfbjmYA1RUZUWxfst2bA5XR/73s6iZJfu1U+usVezEtcJg==",
  },
  "22.14.0": {
    x64: "sha512-R9k0h0zCZkX4/rlJbwS2c/CaOlmbAz3FkcQnQTJneQgJFaMntb8GVT64oArZEvrnzSyck8tGpcss6u3nT7hqxg==",
    arm64: "sha512-pg8rI8Ka8Qf4gwBfaa3vYAuBeiK1LcGxNEsW+VADvpJz4ZAq3yZ64oMwnighJW57tObnd9U0cANhNkL+BgG6OA==",
  },
};

/** The older versions of Node on which the command line is tested, the oldest first. */
export const OLDER_NODES: readonly string[] = Object.keys(HASHES);

/** Returns the path of an older Node, from npm's registry or the user's cache. */
export function olderNode(version: string): string {
  const integrity = HASHES[version]?.[process.arch] ?? "";
  return `${npmPackage({ name: `node-linux-${process.arch}`, version, integrity })}/bin/node`;
}
