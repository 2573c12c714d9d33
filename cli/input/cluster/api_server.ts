import { Buffer } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { apiRequest, baseOf, isOfCertificates } from "../../../policyd/sources/api/connection/http_request.ts";
import { credentialsOf } from "../../../policyd/sources/api/connection/kubeconfig.ts";
import type { ClusterAccess } from "./access.ts";
import { type ApiResponse, type ApiServer, NoAnswer } from "./object_input.ts";

/** Bounds the memory for one answer: 500 of the largest objects that an API server stores are less. */
const LARGEST_ANSWER = 1024 * 1024 * 1024;

/**
 * Returns the API server of a kubeconfig, reached over the network.
 *
 * @throws DrawbridgeError ERR_INPUT as {@link credentialsOf}
 */
export async function connect(access: ClusterAccess): Promise<ApiServer> {
  const { requestTimeout } = access;
  const credentials = await credentialsOf(access);
  return {
    name: baseOf(credentials.server),
    get(path) {
      const signal = requestTimeout === undefined ? undefined : AbortSignal.timeout(requestTimeout);
      return new Promise((resolve, reject) => {
        const fail = (error: Error): void =>
          reject(signal?.aborted === true ? noAnswerInTime(error, requestTimeout ?? 0) : noAnswer(error));
        apiRequest(credentials, path, "drawbridge", signal)
          .on("response", (response) => void collect(response).then(resolve, fail))
          .on("error", fail)
          .end();
      });
    },
  };
}

async function collect(response: IncomingMessage): Promise<ApiResponse> {
  const body: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response) {
    const bytes = Buffer.from(chunk);
    length += bytes.length;
    if (length > LARGEST_ANSWER) throw new Error(`an answer of more than ${LARGEST_ANSWER} bytes`);
    body.push(bytes);
  }
  return { status: response.statusCode ?? 0, retryAfter: response.headers["retry-after"], body };
}

function noAnswerInTime(cause: Error, timeout: number): NoAnswer {
  const wayOut = "see whether kubectl works, or raise --request-timeout";
  return new NoAnswer(`no whole answer within ${timeout / 1000} s`, wayOut, { cause });
}

function noAnswer(error: Error): NoAnswer {
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (isOfCertificates(code)) {
    return new NoAnswer(
      `${code}: ${error.message}`,
      "expected a server and a user by the certificates of the kubeconfig (certificate-authority, client-certificate)",
      { cause: error },
    );
  }
  const words = error.message === "" ? code : error.message;
  return new NoAnswer(words, "expected the address of a running API server in the kubeconfig", { cause: error });
}
