import process from "node:process";
import type { LabNamespace } from "../lab/namespace.ts";

/** An answer as the client received it; without an answer the status is 0 and the body is the error's code. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A program that makes an HTTP request: Node's sockets belong to the namespace of their process. */
const CLIENT = `
const [host, port, path] = process.argv.slice(1);
const request = require("node:http").get({ host, port, path, agent: false, timeout: 3000 }, (response) => {
  let body = "";
  response.on("data", (piece) => (body += piece));
  response.on("end", () => console.log(JSON.stringify({ status: response.statusCode, headers: response.headers, body })));
});
request.on("timeout", () => request.destroy(new Error("timeout")));
request.on("error", (error) => console.log(JSON.stringify({ status: 0, headers: {}, body: error.code ?? error.message })));
`;

/** Sends a request to an HTTP server from within a namespace. */
export function askHttp(from: LabNamespace, host: string, port: number, path: string): HttpAnswer {
  return JSON.parse(from.exec(process.execPath, ["-e", CLIENT, host, String(port), path])) as HttpAnswer;
}
