import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { expectDomainPattern, matchesDomain, matchesOne } from "../../../../objects/domain_name.ts";

const read = (text: string): string => expectDomainPattern(text, "names[0]");

describe("domain names of policies", () => {
  const accepted: readonly (readonly [string, string])[] = [
    ["API.Example.com", "api.example.com"],
    ["api.example.com.", "api.example.com"],
    ["bücher.example", "xn--bcher-kva.example"],
    ["*.Bücher.example.", "*.xn--bcher-kva.example"],
    ["_dmarc.example.com", "_dmarc.example.com"],
    [`${"a".repeat(63)}.example`, `${"a".repeat(63)}.example`],
  ];
  for (const [text, name] of accepted) {
    it(`NAME-02: ${text.slice(0, 30)} is read as ${name.slice(0, 30)}`, () => {
      assert.equal(read(text), name);
    });
  }

  const refused = [
    "",
    "com",
    "*.com",
    "*",
    "a.*.example.com",
    "*a.example.com",
    "a..example.com",
    ".example.com",
    "a b.example.com",
    "ü/b.example.com",
    "http://example.com",
    "-a.example.com",
    "203.0.113.7",
    `${"a".repeat(64)}.example`,
    `${"a.".repeat(127)}example`,
    "cluster.local",
    "web.shop.svc.Cluster.Local.",
    "*.cluster.local",
  ];
  for (const text of refused) {
    it(`NAME-02: ${JSON.stringify(text.slice(0, 30))} is refused`, () => {
      assert.throws(
        () => read(text),
        (error) => error instanceof DrawbridgeError && error.message.startsWith("names[0]: "),
      );
    });
  }

  it("NAME-02: a name matches itself, and a wildcard one label or more below it", () => {
    const matches = (pattern: string, ...names: readonly string[]) =>
      names.map((name) => {
        assert.equal(matchesOne([pattern, "x.org"], name), matchesDomain(pattern, name), `${pattern} of many, ${name}`);
        return matchesDomain(pattern, name);
      });
    assert.deepEqual(matches("example.com", "example.com", "a.example.com", "badexample.com"), [true, false, false]);
    assert.deepEqual(matches("*.example.com", "example.com", ".example.com", "a.example.com", "a.b.example.com"), [
      false,
      false,
      true,
      true,
    ]);
    assert.deepEqual(matches("*.example.com", "badexample.com", "example.com.evil.org"), [false, false]);
  });
});
