import assert from "node:assert/strict";
import { parseEndName } from "../../../cli/cluster/end_name.ts";
import { memoryFiles, runCli, matrixLines } from "../../support/cli/cli.ts";
import { type RawObject } from "../../support/daemon/fake_cluster.ts";

const pod = (name: string, namespace: string): RawObject => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name, labels: { app: name }, ...(namespace === "" ? {} : { namespace }) },
  spec: { containers: [{ name: "c" }] },
  status: { phase: "Running" },
});
const closed: RawObject = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "closed" },
  spec: { podSelector: {} },
};
const text = (...objects: readonly RawObject[]): string => objects.map((one) => `${JSON.stringify(one)}\n`).join("");

describe("cli: the default namespace", () => {
  it("CLI-32: -n sets the namespace of objects that name none; others keep theirs, and without -n it is default", async () => {
    const files = memoryFiles({ "a.yaml": text(pod("web", ""), pod("db", "shop"), closed) });
    const lines = async (...args: readonly string[]): Promise<readonly string[]> => {
      const { out } = await runCli(["policy", "matrix", "-f", "a.yaml", "--by", "pod", "-o", "json", ...args], files);
      return matrixLines(out)
        .split("\n")
        .filter((line) => line !== "");
    };
    const closes = (all: readonly string[], from: string, to: string): boolean =>
      all.some((line) => line.startsWith(`${from},${to},`) && !line.includes("all"));
    const byDefault = await lines();
    assert.ok(
      closes(byDefault, "shop/db", "default/web") && !closes(byDefault, "default/web", "shop/db"),
      byDefault.join("\n"),
    );
    const inShop = await lines("-n", "shop");
    assert.ok(closes(inShop, "shop/db", "shop/web") && closes(inShop, "shop/web", "shop/db"), inShop.join("\n"));
  });

  it("CLI-32: an end without a namespace is in that of -n, also a workload or a Service by kind and name", () => {
    assert.deepEqual(parseEndName("web-0", "shop"), { type: "pod", key: "shop/web-0", word: "web-0" });
    assert.deepEqual(parseEndName("web-0"), { type: "pod", key: "default/web-0", word: "web-0" });
    assert.deepEqual(parseEndName("deploy/web", "shop"), {
      type: "workload",
      namespace: "shop",
      kind: "deployment",
      name: "web",
    });
    assert.deepEqual(parseEndName("pod/web-0", "shop"), { type: "pod", key: "shop/web-0" });
    assert.deepEqual(parseEndName("svc/db", "shop"), { type: "service", key: "shop/db" });
    assert.deepEqual(parseEndName("other/web-0", "shop"), { type: "pod", key: "other/web-0" });
    for (const wrong of ["10.0.0.300", "1234", "Web", "-web", ""])
      assert.equal(parseEndName(wrong, "shop"), undefined, wrong);
  });

  it("CLI-41: matrix, lint and diff show only what -n and -l choose, and everything with -A; the exit code of diff counts all", async () => {
    const open = { ...closed, metadata: { name: "p", namespace: "shop" }, spec: { podSelector: {}, ingress: [{}] } };
    const pods = text(pod("web", "shop"), pod("db", "shop"), pod("job", "other"), pod("cron", "other"));
    const typo = {
      ...closed,
      metadata: { name: "q", namespace: "other", labels: { team: "a" } },
      spec: { podSelector: { matchLabels: { app: "jbo" } } },
    };
    const files = memoryFiles({ "a.yaml": pods + text(typo), "b.yaml": pods + text(open, typo) });
    const run = (...args: readonly string[]) => runCli(["policy", ...args], files);
    const pairs = async (...args: readonly string[]): Promise<readonly string[]> => {
      const { out } = await run("matrix", "-f", "a.yaml", "--by", "pod", "-o", "json", ...args);
      return (JSON.parse(out) as { from: string; to: string }[]).map(({ from, to }) => `${from} ${to}`);
    };
    const [all, inOther, labelled] = [await pairs(), await pairs("-n", "other"), await pairs("-l", "app in (db)")];
    assert.ok(all.includes("shop/web shop/db") && all.includes("shop/web other/job"));
    assert.deepEqual(
      inOther,
      all.filter((pair) => pair.includes("other/")),
    );
    assert.deepEqual(
      labelled,
      all.filter((pair) => pair.includes("shop/db")),
    );
    assert.deepEqual(await pairs("-n", "other", "-A"), all);
    const table = (await run("matrix", "-f", "a.yaml", "-n", "shop")).out;
    assert.doesNotMatch(table, /^other.*other/m);
    for (const [args, code] of [
      [["-n", "other"], 1],
      [["-n", "shop"], 0],
      [["-n", "shop", "-A"], 1],
      [["-l", "team=a"], 1],
      [["-l", "team!=a"], 0],
    ] as const)
      assert.equal((await run("lint", "-f", "a.yaml", "--only", "selects-nothing", ...args)).code, code, args.join());
    const cut = memoryFiles({
      "a.yaml": pods,
      "b.yaml": pods + text({ ...closed, metadata: { name: "c", namespace: "shop" } }),
    });
    const diff = (...args: readonly string[]) => runCli(["policy", "diff", "a.yaml", "b.yaml", ...args], cut);
    const [here, there] = [await diff("-n", "shop"), await diff("-l", "app=none")];
    assert.deepEqual([here.code, there.code], [1, 1]);
    assert.match(here.out, /shop\/db/);
    const [, hidden = ""] =
      /^not shown: (\d+ changes?) of other pods, which the exit code counts$/m.exec(there.err) ?? [];
    const words = `difference in what may be sent, except for ${hidden} of pods that are not shown`;
    assert.equal(there.out, `no ${words}\n`);
    assert.match((await diff("-l", "app=none", "-o", "md")).out, new RegExp(`No ${words}`));
    const dryRun = (...args: readonly string[]) =>
      runCli(["policy", "dry-run", "-f", "b.yaml", "--against", "a.yaml", ...args], cut);
    const [mine, others, every] = [
      await dryRun("-n", "shop"),
      await dryRun("-l", "app=job"),
      await dryRun("-n", "a", "-A"),
    ];
    assert.deepEqual([mine.code, others.code, every.code], [1, 1, 1]);
    assert.match(mine.out, /^newly isolated for ingress: shop\/\*[^]*^closes .* -> shop\/\*/m);
    assert.doesNotMatch(others.out, /isolated for|^closes (?!other\/job -> shop)/m);
    assert.match(others.err, /^not shown: \d+ changes? of other pods, which the exit code counts$/m);
    assert.equal(every.out, (await dryRun()).out);
    assert.equal((await run("matrix", "-f", "a.yaml", "-l", "a b")).code, 2);
    for (const [command, ...paths] of [
      ["matrix", "-f", "a.yaml"],
      ["lint", "-f", "a.yaml"],
      ["diff", "a.yaml", "b.yaml"],
    ] as const)
      assert.match(
        (await run(command, ...paths, "-n", "shpo")).err,
        /nothing was read in namespace shpo; did you mean shop\?$/m,
      );
    assert.doesNotMatch((await run("matrix", "-f", "a.yaml", "-n", "shop")).err, /nothing was read/);
  });
});
