// Streams what the model writes after a text, and prints it as it comes.
//
// Usage: node generate.mjs [TEXT]; the environment's BOLE_SERVER names the
// server. The messages are read from bole.proto when the program starts.
import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const definition = protoLoader.loadSync(
  fileURLToPath(new URL('../../bole.proto', import.meta.url)),
  // Names as in the file; 64-bit numbers as strings; enums by name.
  { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true },
);
const { BoleService } = grpc.loadPackageDefinition(definition).bole.v1;

const client = new BoleService(
  process.env.BOLE_SERVER ?? '127.0.0.1:8400',
  grpc.credentials.createInsecure(),
);
const call = client.Generate(
  {
    text: process.argv[2] ?? 'def fibonacci(n):\n',
    sampling_params: { temperature: 0, max_tokens: 32 },
  },
  { deadline: Date.now() + 60_000 }, // call.cancel() ends it earlier.
);

call.on('data', ({ chunk, complete }) => {
  if (chunk) process.stdout.write(chunk.text);
  if (complete) {
    console.log(
      `\n-- ${complete.usage.completion_tokens} tokens, ${complete.finish_reason}`,
    );
  }
});
// The details of an error are in error.metadata, "grpc-status-details-bin".
call.on('error', (error) => {
  console.error(`${grpc.status[error.code]}: ${error.details}`);
  process.exitCode = 1;
});
call.on('end', () => client.close());
