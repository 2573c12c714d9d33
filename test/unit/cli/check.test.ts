import assert from "node:assert/strict";
import type { ProgramResult } from "../../../cli/input/programs/programs.ts";
import { memoryFiles, type Outcome, runCli } from "../../support/cli/cli.ts";
import { ScriptedPrograms } from "../../support/cli/scripted_programs.ts";

interface Try {
  readonly test: string;
  readonly family: number;
  readonly host: string;
  readonly port?: number;
}
type Row = Try & { readonly problem: string | null };

const failed = (words: string): ProgramResult => ({ type: "failed", how: "exit code 1", words });

/** A cluster of kubectl: it keeps what is created, and answers what the client tries. */
class Kubectl extends ScriptedPrograms {
  /** The objects that were created, as JSON, and the namespaces that were deleted. */
  readonly created: string[] = [];
  readonly deleted: string[] = [];
  /** Returns why a try does not work, given the last policy. */
  answer = (_: Try, policy: string): string | null => (policy === "closed" ? "no answer within 2 s" : null);
  failing = "";
  #policy = "";

  constructor(nodes = ["n1", "n2"]) {
    super((words) => this.#run(words, nodes));
  }

  #run(words: readonly string[], nodes: readonly string[]): ProgramResult | string {
    const [verb = "", ...rest] = words.slice(1).filter((word) => !word.startsWith("--namespace="));
    if (verb === this.failing) return failed("refused by the test");
    const namespace = /drawbridge-check-[0-9a-f]{8}/.exec(words.join(" "))?.[0] ?? "";
    if (verb === "create") {
      this.created.push(words.at(-1) ?? "");
      this.#policy = /"name":"(closed|opened)"/.exec(words.at(-1) ?? "")?.[1] ?? "";
      return "created\n";
    }
    if (verb === "delete") this.deleted.push(namespace);
    if (verb === "exec") {
      const tries = JSON.parse(words.at(-1) ?? "") as readonly Try[];
      const ofPods = tries.every(({ test }) => test.startsWith("pod on"));
      return JSON.stringify(tries.map((one) => this.answer(one, ofPods ? this.#policy : "")));
    }
    if (verb !== "get") return "";
    if (rest.some((word) => word.startsWith("--selector=")))
      return nodes.map((n) => `d-${n} ${n} Running image:1\n`).join("");
    const pod = (name: string, i: number): object => ({
      kind: "Pod",
      metadata: { name },
      status: { podIPs: [{ ip: `10.0.${i}.2` }, { ip: `fd00:${i}::2` }], hostIPs: [{ ip: `192.0.2.${i}` }] },
    });
    const service = {
      kind: "Service",
      metadata: { name: "server", namespace },
      spec: { clusterIPs: ["10.96.0.9", "fd00:96::9"], ports: [{ nodePort: 30123 }] },
    };
    const servers = nodes.map((_, i) => pod(i === 0 ? "server-same-node" : "server-other-node", i + 1));
    return JSON.stringify({ items: [pod("client", 1), ...servers, service] });
  }
}

const check = (programs: Kubectl, ...args: readonly string[]): Promise<Outcome> =>
  runCli(["check", ...args], memoryFiles({}), undefined, undefined, { programs });
const rowsOf = async (programs: Kubectl, ...args: readonly string[]): Promise<readonly Row[]> =>
  (JSON.parse((await check(programs, "-o", "json", ...args)).out) as { readonly tried: readonly Row[] }).tried;

describe("cli/check", () => {
  it("CHECK-01: pods, Service, DNS, node ports, outside and policies are tried in both families, and the namespace is removed", async () => {
    const programs = new Kubectl();
    const { code, out, err } = await check(programs);
    assert.deepEqual([code, err], [0, ""]);
    for (const line of [
      "pod on the same node IPv6 fd00:1::2 8080 ok",
      "pod on another node IPv4 10.0.2.2 8080 ok",
      "pod on another node that a policy denies IPv6 fd00:2::2 8080 ok",
      "outside IPv6 2606:4700:4700::1111 443 ok",
    ])
      assert.ok(out.replaceAll(/ +/g, " ").includes(`\n${line}\n`), out);
    assert.match(out, /^20 of 20 are ok$/m);
    const tests = (await rowsOf(new Kubectl())).map(({ test, family }) => `${test} ${family}`);
    for (const test of ["Service 4", "Service 6", "DNS 4", "DNS 6", "node port of its own node 4"])
      assert.ok(tests.includes(test), test);
    assert.equal(programs.deleted.length, 1);
    assert.ok(programs.created.every((text) => text.includes(programs.deleted[0] ?? "-")));
  });

  it("CHECK-01: the namespace admits only restricted pods, and the check's pods are restricted and have the daemon's image", async () => {
    const programs = new Kubectl();
    await check(programs);
    const { items } = JSON.parse(programs.created[0] ?? "") as {
      readonly items: readonly {
        readonly kind: string;
        readonly metadata: object;
        readonly spec: Record<string, unknown>;
      }[];
    };
    assert.match(JSON.stringify(items[0]?.metadata), /"pod-security.kubernetes.io\/enforce":"restricted"/);
    const pods = items.filter(({ kind }) => kind === "Pod").map(({ spec }) => spec);
    assert.deepEqual(
      pods.map(({ nodeName }) => nodeName),
      ["n1", "n1", "n2"],
    );
    for (const pod of pods) {
      const text = JSON.stringify(pod);
      for (const part of [
        '"runAsNonRoot":true',
        '"seccompProfile":{"type":"RuntimeDefault"}',
        '"allowPrivilegeEscalation":false',
        '"capabilities":{"drop":["ALL"]}',
        '"image":"image:1"',
      ])
        assert.ok(text.includes(part), part);
      assert.doesNotMatch(text, /hostPath|hostNetwork|privileged/);
    }
  });

  for (const [what, answer, problem] of [
    ["a connection without an answer", ({ test }: Try) => (test === "Service" ? "ECONNREFUSED" : null), "ECONNREFUSED"],
    ["a policy that is not enforced", () => null, "allowed"],
    ["a policy that allows nothing", (_: Try, policy: string) => (policy === "" ? null : "EACCES"), "EACCES"],
  ] as const) {
    it(`CHECK-01: ${what} is exit code 1 with its reason, and the namespace is removed`, async () => {
      const programs = new Kubectl();
      programs.answer = answer;
      const { code, out } = await check(programs, "--outside", "none");
      assert.equal(code, 1);
      assert.match(out, new RegExp(` ${problem}$`, "m"));
      assert.equal(programs.deleted.length, 1);
    });
  }

  for (const verb of ["create", "wait", "get", "exec"]) {
    it(`CHECK-01: where kubectl ${verb} fails, the exit code is 3, and whatever was made is removed`, async () => {
      const programs = new Kubectl();
      programs.failing = verb;
      const { code, out, err } = await check(programs);
      assert.deepEqual([code, out], [3, ""]);
      assert.match(err, /refused by the test/);
      assert.equal(programs.deleted.length, verb === "get" ? 0 : 1, "without a daemon nothing is made");
    });
  }

  it("CHECK-01: after a signal the running command ends, the namespace is removed, and the exit code is 3", async () => {
    for (const verb of ["create", "exec"]) {
      const programs = new Kubectl();
      const run = programs.run.bind(programs);
      programs.run = (command, args, ...more) => {
        if (args.includes(verb)) programs.stop();
        return run(command, args, ...more);
      };
      const { code, out, err } = await check(programs);
      assert.deepEqual([code, out], [3, ""]);
      assert.match(err, /stopped by a signal/);
      assert.equal(programs.deleted.length, 1);
      assert.equal(programs.called.filter((call) => /^kubectl \S+ exec /.test(call)).length, verb === "exec" ? 1 : 0);
    }
  });

  it("CHECK-01: a namespace that cannot be deleted is named with the command that deletes it", async () => {
    const programs = new Kubectl();
    programs.failing = "delete";
    const { code, err } = await check(programs);
    assert.equal(code, 3);
    assert.match(err, /^not removed: run kubectl delete namespace drawbridge-check-[0-9a-f]{8}$/m);
  });

  it("CHECK-01: with one node, and for named nodes, what is not tried is said, and wrong names are errors", async () => {
    const { code, err } = await check(new Kubectl(["n1"]));
    assert.deepEqual([code, err], [0, "not tried: connections between nodes, since only one node is tried\n"]);
    const rows = await rowsOf(new Kubectl(["n1", "n2", "n3"]), "--node", "n3,n1", "--outside", "192.0.2.9:80");
    assert.deepEqual(
      rows.filter(({ test }) => test === "outside").map(({ host, port }) => `${host} ${port}`),
      ["192.0.2.9 80"],
    );
    assert.equal((await check(new Kubectl(), "--node", "n9")).code, 3);
    for (const outside of ["example.org:80", "::1:80", "192.0.2.1:99999", "192.0.2.1"])
      assert.equal((await check(new Kubectl(), "--outside", outside)).code, 2, outside);
  });
});
