/** Lengths at and beyond every limit for names, and one beyond all of them. */
const LENGTHS = [14, 15, 16, 63, 64, 127, 128, 200, 253, 254, 255, 256, 5000];

/**
 * Texts that end, open or mean something when they are inserted into a text of nft, YAML, JSON, a path or a terminal.
 */
const SHARP: readonly string[] = [
  '"; flush ruleset; "',
  "'; flush ruleset; '",
  "} ; flush ruleset ; add table ip owned {",
  '" comment "x" ; add table inet owned ; #',
  "\n\tflush ruleset\n",
  "x\nadd table inet owned\n",
  "\\\nadd table inet owned",
  "@pod4",
  "$owned",
  "{ 0.0.0.0/0 }",
  "0.0.0.0/0",
  "::/0",
  "*",
  "dbv*",
  "lo",
  "cni0",
  "accept",
  "drop",
  "ruleset",
  "inet",
  "element",
  "jump",
  "-1",
  "0",
  "65536",
  "80-90",
  "0x50",
  "1e3",
  "080",
  "NaN",
  "80; drop",
  "__proto__",
  "constructor",
  "toString",
  "hasOwnProperty",
  "null",
  "~",
  "yes",
  "off",
  "!!js/function 'process.exit(1)'",
  "!!binary aGk=",
  "&a [*a, *a]",
  "*a",
  "<<: *a",
  "--- \n...",
  "{a: [",
  "]}",
  '"}, "kind": "Pod", "x": {"y": "',
  "# comment",
  "? - :",
  "| \n  text",
  "%YAML 9.9",
  "\\u0000",
  "\\ud800",
  "${PATH}",
  "$(touch owned)",
  "`touch owned`",
  "%s%n%d",
  "br%d",
  ".",
  "..",
  "all",
  "default",
  "\u0000",
  "\u0007\b\u001b[2J\u001b]0;owned\u0007",
  "\r\nerror forged line",
  "2026-01-01T00:00:00.000Z error forged",
  "\u007f\u0080\u009b31m",
  "\u2028error\u2029forged",
  "\u202egnirts\u202c",
  "\u2066x\u2069",
  "\u200b\ufeff",
  "a\u0301\u0301\u0301\u0301\u0301",
  "ǅÞß",
  "аpp",
  "名前",
  "👩‍👩‍👧‍👦",
  "\u{10ffff}",
  "\ud800",
  "\udfff\ud800",
  "ſ",
  "K",
  "",
  " ",
  "\t",
];

/** Ways to disguise a text, so that it passes a check of only its beginning, its end, its case or its length. */
const DISGUISES: readonly ((text: string, other: string, random: () => number) => string)[] = [
  (text) => text,
  (text) => `web-0${text}`,
  (text) => `${text}web-0`,
  (text) => `web${text}0`,
  (text) => `web-0\n${text}`,
  (text, other) => `${text}${other}`,
  (text, other) => `${text}\n${other}`,
  (text) => `"${text}"`,
  (text) => `app.kubernetes.io/${text}`,
  (text) => text.toUpperCase(),
  (text, _other, random) => {
    const length = pick(LENGTHS, random);
    const unit = text === "" ? "a" : text;
    return unit.repeat(Math.ceil(length / unit.length)).slice(0, length);
  },
  (text, other, random) => {
    const length = pick(LENGTHS, random);
    return `${"a".repeat(Math.max(0, length - text.length))}${text}${other.slice(0, 1)}`;
  },
];

/**
 * Returns texts that an attacker would choose, reproducible from the source of randomness.
 *
 * @param mark a word that occurs nowhere else: some of the texts are paths that contain it, so that a file created by
 * one of them is found by its name
 */
export function hostileStrings(count: number, mark: string, random: () => number): readonly string[] {
  const paths = [1, 2, 3, 5, 9].flatMap((depth) => [
    `${"../".repeat(depth)}${mark}`,
    `${"../".repeat(depth)}tmp/${mark}`,
    `x/${"../".repeat(depth)}${mark}`,
  ]);
  const sharp = [...SHARP, ...paths, `/tmp/${mark}`, `/${mark}`, `file:///tmp/${mark}`, `..%2f${mark}`, mark];
  return Array.from({ length: count }, () => {
    if (random() < 0.1) return noise(random);
    return pick(DISGUISES, random)(pick(sharp, random), pick(sharp, random), random);
  });
}

/** Returns a random item of a list. */
export function pick<T>(list: readonly T[], random: () => number): T {
  const item = list[Math.floor(random() * list.length)];
  if (item === undefined) throw new RangeError("nothing to pick from");
  return item;
}

/** Returns UTF-16 units of every kind, most of them below 256, with single surrogates and pairs. */
function noise(random: () => number): string {
  const length = 1 + Math.floor(random() * 40);
  const unit = (): number => Math.floor(random() * (random() < 0.8 ? 0x100 : 0x1_0000));
  return String.fromCharCode(...Array.from({ length }, unit));
}
