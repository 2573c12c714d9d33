import net from "node:net";
import process from "node:process";
import { setTimeout as wait } from "node:timers/promises";

/* Opens connections to a health port for some seconds, 300 at a time, each with a request of 8 KB, and ends them. It is a program of its own, since it has to run in the node's network namespace. Its arguments are the port and the seconds. */
const [port = 0, seconds = 0] = process.argv.slice(2).map(Number);
const AT_ONCE = 300;
const OPEN_MILLISECONDS = 300;
const REQUEST = `GET /healthz HTTP/1.1\r\nHost: node\r\nX-Filling: ${"y".repeat(8000)}\r\n\r\n`;

let answers = 0;
const begun = performance.now();
while (performance.now() - begun < 1000 * seconds) {
  const connections = Array.from({ length: AT_ONCE }, () => {
    const connection = net.connect({ host: "127.0.0.1", port });
    connection.on("error", () => {});
    connection.on("data", () => answers++);
    connection.write(REQUEST);
    return connection;
  });
  await wait(OPEN_MILLISECONDS);
  for (const connection of connections) connection.destroy();
}
process.exitCode = answers > 0 ? 0 : 1;
