// SPDX-License-Identifier: Apache-2.0
//
// Makes calls with @connectrpc/connect-node: protobuf and JSON, plain and gzipped. usage: node client.mjs URL DESCRIPTORS
// DESCRIPTORS is a FileDescriptorSet of our proto files. Calls come as JSON on stdin, [{service, method, request}], answers go to
// stdout as [{kind: {message} or {code, error}}], one object a call with an entry for each kind of transport.
import { readFileSync } from "node:fs";
import { createFileRegistry, fromBinary, fromJson, toJson } from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { compressionGzip, createConnectTransport } from "@connectrpc/connect-node";

const [, , baseUrl, descriptors] = process.argv;
const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const common = { baseUrl, httpVersion: "1.1", compressMinBytes: 0 };
const gzip = { acceptCompression: [compressionGzip], sendCompression: compressionGzip };
const plain = { acceptCompression: [] };
const transports = {
  proto: createConnectTransport({ ...common, ...plain, useBinaryFormat: true }),
  protoGzip: createConnectTransport({ ...common, ...gzip, useBinaryFormat: true }),
  json: createConnectTransport({ ...common, ...plain, useBinaryFormat: false }),
  jsonGzip: createConnectTransport({ ...common, ...gzip, useBinaryFormat: false }),
};

async function call(transport, { service, method, request, timeoutMs }) {
  const desc = registry.getService(service);
  const m = desc.methods.find((x) => x.name === method);
  try {
    const answer = await createClient(desc, transport)[m.localName](fromJson(m.input, request), { timeoutMs });
    return { message: toJson(m.output, answer) };
  } catch (e) {
    const error = ConnectError.from(e);
    return { code: Code[error.code], error: error.rawMessage };
  }
}

const answers = [];
for (const c of JSON.parse(readFileSync(0, "utf8"))) {
  const one = {};
  for (const [kind, transport] of Object.entries(transports)) one[kind] = await call(transport, c);
  answers.push(one);
}
process.stdout.write(JSON.stringify(answers));
