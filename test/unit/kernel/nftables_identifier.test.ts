import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../kernel/error.ts";
import {
  checkComment,
  checkLogPrefix,
  checkName,
  checkPresentName,
  commentText,
  isInterfaceNameText,
} from "../../../kernel/nftables/model/identifier.ts";

/** Texts that end, open or mean something in nft's language, a shell, C or Unicode. */
const HOSTILE = [
  '"',
  "'",
  "\\",
  ";",
  "{",
  "}",
  "#",
  "$",
  "@x",
  "*",
  "!",
  "\n",
  "\t",
  "\0",
  ",",
  "&",
  "(",
  "%s",
  "é",
  "😀",
];

describe("kernel/nftables: names and texts of ours", () => {
  const rows = [
    [
      "name",
      (text: string) => checkName("chain", text),
      ["a", "Z9_-", "a".repeat(63)],
      ["", "9a", "_a", "a.b", "a/b"],
      63,
    ],
    ["comment", checkComment, ["a", " ._:/=?-", "9".repeat(127)], [""], 127],
    ["log prefix", checkLogPrefix, ["a", " ._:/=|-", "9".repeat(127)], ["", "a?"], 127],
    ["link's name", linkName, ["a", "eth0.5", "9:@-_", "x".repeat(15)], ["", ".", "..", "a b", "a/b"], 15],
  ] as const;
  for (const [what, check, taken, refused, longest] of rows) {
    it(`a ${what} is taken up to ${longest} characters, and refused with any that nft would read in another way`, () => {
      for (const text of taken) assert.equal(check(text), text);
      const within = HOSTILE.filter((piece) => !(what === "link's name" && piece === "@x"));
      for (const text of [...refused, ...within, ...within.map((piece) => `a${piece}a`), "a".repeat(longest + 1)])
        assert.throws(() => check(text), { code: "ERR_NFTABLES_VALUE" }, JSON.stringify(text));
    });
  }

  it("a name of an object to delete may be any that the kernel takes, since others may have made it", () => {
    for (const text of ["*", ";", `${"é".repeat(127)}a`]) assert.equal(checkPresentName("chain", text), text);
    for (const text of ["", "a\0", "é".repeat(128)])
      assert.throws(() => checkPresentName("chain", text), { code: "ERR_NFTABLES_VALUE" });
  });

  it("any text becomes a valid comment of the same beginning", () => {
    assert.equal(commentText('web "1"; é\n'), "web ?1?? ??");
    assert.equal(checkComment(commentText(HOSTILE.join("").repeat(9))).length, 127);
  });
});

function linkName(text: string): string {
  if (isInterfaceNameText(text)) return text;
  throw new DrawbridgeError("ERR_NFTABLES_VALUE", text);
}
