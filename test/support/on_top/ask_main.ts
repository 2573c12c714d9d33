import { Resolver } from "node:dns/promises";
import process from "node:process";

/** A question that {@link ask} of resolver.ts asks. */
export interface Question {
  readonly type: "A" | "AAAA" | "SRV" | "PTR";
  readonly name: string;
}

/** The sorted answer: addresses, names, or ports and names; or the error's code ("ENOTFOUND", "ETIMEOUT"). */
export type Answer = readonly string[] | string;

async function answerOf(resolver: Resolver, question: string): Promise<Answer> {
  const [type = "", name = ""] = question.split(" ");
  try {
    switch (type) {
      case "A":
        return (await resolver.resolve4(name)).toSorted();
      case "AAAA":
        return (await resolver.resolve6(name)).toSorted();
      case "SRV":
        return (await resolver.resolveSrv(name)).map((one) => `${one.name}:${one.port}`).toSorted();
      case "PTR":
        return (await resolver.reverse(name)).toSorted();
      default:
        throw new Error(`no question: ${question}`);
    }
  } catch (error) {
    if (error instanceof Error && "code" in error) return String(error.code);
    throw error;
  }
}

/**
 * Runs as `ask_main.ts <server> <milliseconds> ["<type> <name>"...]`, asks each question once and prints the answers as
 * JSON.
 */
const [server = "", timeout = "", ...questions] = process.argv.slice(2);
const resolver = new Resolver({ timeout: Number(timeout), tries: 1 });
resolver.setServers([server.includes(":") ? `[${server}]:53` : server]);
process.stdout.write(JSON.stringify(await Promise.all(questions.map((question) => answerOf(resolver, question)))));
