import { createSocket } from "node:dgram";
import { connect, createServer, isIPv6 } from "node:net";
import process from "node:process";

/**
 * The program that test/lab/stream.ts starts: `serve PORT` receives everything by TCP and UDP, in both families, and
 * prints "ready"; `send tcp|udp ADDRESS PORT BYTES_PER_SECOND` sends until it is killed, by TCP as fast as possible.
 */
const CHUNK = new Uint8Array(256 * 1024);
const DATAGRAM = new Uint8Array(1400);
/** The most datagrams in the kernel at once, so that a full send buffer slows the sender down. */
const MOST_UNDER_WAY = 256;
/** The time that a delayed sender makes up for. */
const LONGEST_DEBT_SECONDS = 0.05;

function serve(port: number): void {
  const server = createServer((socket) => socket.on("error", () => {}).resume());
  const datagrams = createSocket({ type: "udp6", recvBufferSize: 4 * 1024 * 1024 });
  server.listen(port, "::", () => datagrams.bind(port, "::", () => process.stdout.write("ready\n")));
}

function sendStream(address: string, port: number): void {
  const socket = connect(port, address);
  const fill = (): void => {
    while (socket.write(CHUNK));
  };
  socket.on("connect", fill).on("drain", fill);
}

function sendDatagrams(address: string, port: number, bytesPerSecond: number): void {
  const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
  let underWay = 0;
  let owed = 0;
  let last = performance.now();
  const fill = (): void => {
    const now = performance.now();
    owed = Math.min(owed + ((now - last) / 1000) * bytesPerSecond, LONGEST_DEBT_SECONDS * bytesPerSecond);
    last = now;
    for (; owed >= DATAGRAM.length && underWay < MOST_UNDER_WAY; owed -= DATAGRAM.length) {
      underWay++;
      socket.send(DATAGRAM, () => underWay--);
    }
  };
  socket.on("connect", () => setInterval(fill, 1)).connect(port, address);
  // ECONNREFUSED after the end of the receiver; the measurement then sees that nothing arrives.
  socket.on("error", () => {});
}

const [role, ...rest] = process.argv.slice(2);
if (role === "serve") serve(Number(rest[0]));
else if (rest[0] === "tcp") sendStream(rest[1] ?? "", Number(rest[2]));
else sendDatagrams(rest[1] ?? "", Number(rest[2]), Number(rest[3]));
