/** The value that a scalar stands for. An integer is a bigint, so that a key keeps all its digits. */
export type ScalarValue = string | number | bigint | boolean | null;

const TRUE = new Set(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"]);
const FALSE = new Set(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"]);
const NULL = new Set(["", "~", "null", "Null", "NULL"]);
const NOT_FINITE = /^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$/;
const INTEGER =
  /^(?<sign>[-+]?)(?:0[xX](?<hex>[0-9a-fA-F]+)|0[bB](?<binary>[01]+)|0[oO]?(?<octal>[0-7]+)|(?<decimal>0|[1-9][0-9]*))$/;
const FLOAT = /^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$/;
const SMALLEST_INTEGER = -(2n ** 63n);
const LARGEST_INTEGER = 2n ** 64n - 1n;
const TIMESTAMP =
  /^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?)?$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const TAG = "tag:yaml.org,2002:";

/** The tags that are checked, each with a test of the value that the text has without it; other tags are ignored. */
const JUDGED: ReadonlyMap<string, (value: ScalarValue, text: string) => boolean> = new Map([
  ["null", (value) => value === null],
  ["bool", (value) => typeof value === "boolean"],
  ["int", (value) => typeof value === "bigint"],
  ["float", (value) => typeof value === "bigint" || typeof value === "number"],
  ["timestamp", (_, text) => TIMESTAMP.test(text)],
]);

/**
 * Returns the value of a scalar, as kubectl reads it (goyaml v2, resolve.go): YAML 1.1 with octal numbers in both
 * notations, while times and sexagesimal numbers are texts.
 *
 * @param isPlain whether it is without quotes and not a block
 * @param tag the tag in its long form; undefined without one
 * @returns undefined for a value that the tag does not allow, and for a number that JSON does not have
 */
export function scalarValue(text: string, isPlain: boolean, tag: string | undefined): ScalarValue | undefined {
  if (tag === undefined || tag === "!") return isPlain && tag === undefined ? plainValue(text) : text;
  if (tag === `${TAG}binary`) return BASE64.test(text) ? Buffer.from(text, "base64").toString("utf8") : undefined;
  const isAllowed = tag.startsWith(TAG) ? JUDGED.get(tag.slice(TAG.length)) : undefined;
  if (isAllowed === undefined) return text;
  const value = plainValue(text);
  if (value === undefined || !isAllowed(value, text)) return undefined;
  return tag === `${TAG}timestamp` ? text : value;
}

/** Returns the value of a text without quotes and tag, as {@link scalarValue} does. */
function plainValue(text: string): ScalarValue | undefined {
  if (TRUE.has(text)) return true;
  if (FALSE.has(text)) return false;
  if (NULL.has(text)) return null;
  if (NOT_FINITE.test(text)) return undefined;
  // Go's ParseFloat accepts an underscore only between two digits.
  if (text.startsWith("."))
    return (/^\._|__|_$|_[^0-9]|[^0-9]_/.test(text) ? undefined : floatOf(text.replaceAll("_", ""))) ?? text;
  if (!/^[-+0-9]/.test(text)) return text;
  const figures = text.replaceAll("_", "");
  return integerOf(figures) ?? floatOf(figures) ?? text;
}

function integerOf(text: string): bigint | undefined {
  // After 0b, Go parses a number with its sign: 0b-1 is -1.
  const groups = INTEGER.exec(text.replace(/^0b([-+])(?=[01]+$)/, "$10b"))?.groups;
  if (groups === undefined) return undefined;
  const { sign, hex, binary, octal, decimal = "" } = groups;
  const figures =
    hex !== undefined
      ? `0x${hex}`
      : binary !== undefined
        ? `0b${binary}`
        : octal !== undefined
          ? `0o${octal}`
          : decimal;
  const value = sign === "-" ? -BigInt(figures) : BigInt(figures);
  const isInRange = value >= SMALLEST_INTEGER && value <= (sign === "+" ? -SMALLEST_INTEGER - 1n : LARGEST_INTEGER);
  return isInRange ? value : undefined;
}

/** Parses a float; undefined also for one that is out of range, which stays a text. */
function floatOf(text: string): number | undefined {
  if (!FLOAT.test(text)) return undefined;
  const value = Number(text);
  return Number.isFinite(value) ? value : undefined;
}

/** Returns a value's name as an object key (sigs.k8s.io/yaml): numbers with a fraction as Go prints them in 32 bits. */
export function keyText(value: Exclude<ScalarValue, null>): string {
  return typeof value === "number" ? shortFloat(value) : String(value);
}

/** Formats a number as Go's `strconv.FormatFloat(value, 'g', -1, 32)`. */
function shortFloat(value: number): string {
  const rounded = Math.fround(value);
  if (!Number.isFinite(rounded)) return rounded > 0 ? ".inf" : "-.inf";
  if (rounded === 0) return Object.is(rounded, -0) ? "-0" : "0";
  let shortest = rounded.toExponential(0);
  for (let digits = 1; Math.fround(Number(shortest)) !== rounded; digits++) shortest = rounded.toExponential(digits);
  const [mantissa = "", power = "0"] = shortest.split("e");
  const exponent = Number(power);
  const digits = mantissa.replaceAll(/[-.]/g, "").length;
  if (exponent < -4 || exponent >= 6) {
    return `${mantissa}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
  }
  return rounded.toFixed(Math.max(0, digits - 1 - exponent));
}
