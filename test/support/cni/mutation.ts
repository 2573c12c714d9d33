import fc from "fast-check";

/** One call of the plugin that is damaged or, by chance, correct. */
export interface MutatedCall {
  readonly verb: "ADD" | "DEL";
  readonly environment: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** The configurations and the environment from which the calls are made. */
export interface MutationBase {
  /**
   * Configurations that the plugin accepts; their `dataDir` and `runDir` are only ever replaced by texts that it
   * refuses.
   */
  readonly configurations: readonly Readonly<Record<string, unknown>>[];
  readonly environment: Readonly<Record<string, string>>;
}

type Change = (value: unknown) => unknown;
type Step = string | number;

/** Values that have made JSON consumers, path builders and address parsers fail. */
const hostileValues: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e308,
  4294967296,
  "",
  " ",
  "x",
  "\0",
  "../../../etc/passwd",
  "/",
  "/../x",
  "..",
  "%d",
  "a\nb",
  "\u202e",
  "\ud800",
  "é".repeat(40),
  "A".repeat(5000),
  "10.244.1.0/24",
  "010.0.0.1",
  "127.1",
  "0.0.0.0/0",
  "::/0",
  "fe80::1%eth0",
  "::ffff:10.0.0.1",
  "10.244.1.256",
  "10.244.1.7/33",
  "fd00::/127",
  "224.0.0.1",
  "ff:ff:ff:ff:ff:ff",
  "0a:58:0a:f4:01:07",
  [],
  {},
  [[]],
  [[{}]],
  [null],
  { subnet: "10.9.0.0/24" },
  [[{ subnet: "10.9.0.0/30" }]],
  Array.from({ length: 2000 }, () => "x"),
  { toString: 1, hasOwnProperty: 1, length: -1 },
  { "": "" },
];

/** Replacements for a directory, none of which is accepted. */
const hostileDirectories: readonly unknown[] = [
  "x",
  "../x",
  "/..",
  "/tmp/../../etc",
  "/tmp/\0",
  "~",
  ".",
  7,
  true,
  [],
  {},
  ["/tmp/x"],
];

const hostileVariables: readonly string[] = [
  "",
  " ",
  "/",
  "..",
  ".",
  "../x",
  "a/b",
  "a:b",
  "a b",
  "%s%n",
  "eth%d",
  "all",
  "0123456789abcdef",
  "x".repeat(201),
  "é",
  "\u202e",
  "\n",
  "-",
  "_",
  "/proc/self/ns/net",
  "/proc/self/ns/mnt",
  "/dev/null",
  "/proc/self/status",
  "/nonexistent/x",
  "A=1",
  "A=1=2",
  ";;",
  "=",
  "IP=x",
  "MAC=x",
  "IP=10.244.1.7",
  "IP=10.244.1.1",
  "IP=192.0.2.1",
  "MAC=0a:58:0a:f4:01:07",
  "IgnoreUnknown=1;A=1",
  "K8S_POD_NAMESPACE=../x;K8S_POD_NAME=..",
  "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b",
];

const rawTexts: readonly string[] = [
  "",
  " ",
  "null",
  "[]",
  "1",
  '"x"',
  "{",
  '{"name":"pods"',
  "}",
  "\ufeff{}",
  "\0",
  '{"__proto__":{"name":"pods"}}',
  "{}{}",
  "NaN",
  `{"name":"pods","policyd":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
  `${'{"ipam":'.repeat(2000)}1${"}".repeat(2000)}`,
];

/** Generates calls with one to four mutations of an accepted configuration and its environment. */
export function mutatedCalls({ configurations, environment }: MutationBase): fc.Arbitrary<MutatedCall> {
  const mutation = fc.record({ where: fc.nat(), change: changes });
  const mutatedText = fc
    .tuple(fc.constantFrom(...configurations), fc.array(mutation, { maxLength: 3 }), textMutation)
    .map(([configuration, mutations, mutateText]) => {
      const mutated = mutations.reduce<unknown>(
        (value, { where, change }) => mutateAt(value, where, change),
        configuration,
      );
      return mutateText(JSON.stringify(mutated));
    });
  const stdin = fc.oneof(
    { weight: 12, arbitrary: mutatedText },
    { weight: 1, arbitrary: fc.constantFrom(...rawTexts) },
  );
  const variables = fc.oneof(
    { weight: 3, arbitrary: fc.constant(environment) },
    { weight: 2, arbitrary: mutatedEnvironment(environment) },
  );
  return fc.record({ verb: fc.constantFrom("ADD", "DEL"), environment: variables, stdin });
}

const changes: fc.Arbitrary<Change> = fc.oneof(
  fc.constantFrom(...hostileValues).map(
    (value): Change =>
      () =>
        value,
  ),
  fc.jsonValue({ maxDepth: 3 }).map(
    (value): Change =>
      () =>
        value,
  ),
  fc.constantFrom<Change>(
    (value) => [value],
    (value) => ({ value }),
    (value) => JSON.stringify(value),
    (value) => (typeof value === "string" ? `${value}/..` : [value, value]),
    (value) =>
      Array.isArray(value) ? [...(value as readonly unknown[]), ...(value as readonly unknown[])] : undefined,
  ),
  fc.tuple(fc.nat(200), fc.string({ minLength: 1, maxLength: 3, unit: "binary" })).map(
    ([at, text]): Change =>
      (value) =>
        typeof value === "string"
          ? value.slice(0, at % (value.length + 1)) + text + value.slice(at % (value.length + 1))
          : text,
  ),
);

/**
 * Turns a text into one that is not JSON any more, but leaves it as it is most often. It changes no character of a
 * path, which must not lead elsewhere.
 */
const textMutation: fc.Arbitrary<(text: string) => string> = fc.oneof(
  { weight: 8, arbitrary: fc.constant((text: string) => text) },
  { weight: 1, arbitrary: fc.nat().map((at) => (text: string) => text.slice(0, at % text.length)) },
  { weight: 1, arbitrary: fc.string({ minLength: 1, maxLength: 4 }).map((tail) => (text: string) => text + tail) },
  { weight: 1, arbitrary: fc.constant((text: string) => text.replaceAll(/"(\w+)":/g, (key) => key.toUpperCase())) },
  {
    weight: 1,
    arbitrary: fc.constant((text: string) => text.replace("{", '{"__proto__":{"name":"x"},"constructor":1,')),
  },
);

function mutatedEnvironment(
  environment: Readonly<Record<string, string>>,
): fc.Arbitrary<Readonly<Record<string, string>>> {
  const names = ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS"];
  const change = fc.tuple(fc.constantFrom(...names), fc.constantFrom(...hostileVariables));
  return fc
    .array(change, { minLength: 1, maxLength: 2 })
    .map((list) => ({ ...environment, ...Object.fromEntries(list) }));
}

/** Changes the value at one of the places of a JSON value; undefined removes it. */
function mutateAt(value: unknown, where: number, change: Change): unknown {
  const places = placesOf(value, []);
  const place = places[where % places.length] ?? [];
  const isDirectory = place.includes("dataDir") || place.includes("runDir");
  return replace(value, place, isDirectory ? () => hostileDirectories[where % hostileDirectories.length] : change);
}

/** Returns every place below a value, as a path of keys. A place that holds a directory is only replaced as a whole. */
function placesOf(value: unknown, path: readonly Step[]): readonly (readonly Step[])[] {
  if (value === null || typeof value !== "object") return [path];
  const inner = Object.entries(value).flatMap(([key, element]) =>
    placesOf(element, [...path, Array.isArray(value) ? Number(key) : key]),
  );
  return holdsDirectory(value) ? inner : [path, ...inner];
}

/**
 * Whether a value holds directories. Without them the plugin would use its default directories, which are the
 * machine's.
 */
function holdsDirectory(value: object): boolean {
  return (
    "dataDir" in value ||
    "runDir" in value ||
    Object.values(value).some((inner: unknown) => typeof inner === "object" && inner !== null && holdsDirectory(inner))
  );
}

function replace(value: unknown, [step, ...rest]: readonly Step[], change: Change): unknown {
  if (step === undefined) return change(value);
  if (Array.isArray(value))
    return value.map((element: unknown, i) => (i === step ? replace(element, rest, change) : element));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, element]) => [key, key === step ? replace(element, rest, change) : element]),
  );
}
