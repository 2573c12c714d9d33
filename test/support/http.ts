import process from "node:process";
import type { LabNamespace } from "../lab/namespace.ts";

/** An answer as the client received it; without an answer the status is 0 and the body is the error's code. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The host, the port and the path of a request. */
export type HttpRequest = readonly [host: string, port: number, path: string];

/** A program that makes HTTP requests: Node's sockets belong to the namespace of their process. */
const CLIENT = `
const answerOf = ([host, port, path]) => new Promise((resolve) => {
  const request = require("node:http").get({ host, port, path, agent: false, timeout: 3000 }, (response) => {
    let body = "";
    response.on("data", (piece) => (body += piece));
    response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, body }));
  });
  request.on("timeout", () => request.destroy(new Error("timeout")));
  request.on("error", (error) => resolve({ status: 0, headers: {}, body: error.code ?? error.message }));
});
Promise.all(JSON.parse(process.argv[1]).map(answerOf)).then((answers) => console.log(JSON.stringify(answers)));
`;

/** Sends requests to HTTP servers from within a namespace, all at once, and returns their answers in order. */
export function askHttpAll(from: LabNamespace, requests: readonly HttpRequest[]): readonly HttpAnswer[] {
  return JSON.parse(from.exec(process.execPath, ["-e", CLIENT, JSON.stringify(requests)])) as readonly HttpAnswer[];
}

/** Sends a request to an HTTP server from within a namespace. */
export function askHttp(from: LabNamespace, host: string, port: number, path: string): HttpAnswer {
  const [answer] = askHttpAll(from, [[host, port, path]]);
  if (answer === undefined) throw new Error("the client printed no answer");
  return answer;
}
