// The protos, read at run time; nothing is generated but types.
import { fileURLToPath } from 'node:url';

import grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

const protos = protoLoader.loadSync(['outrider/v1/generation.proto', 'outrider/v1/errors.proto'], {
  includeDirs: [fileURLToPath(new URL('../../../protos', import.meta.url))],
  keepCase: true,
  longs: String, // a number of JavaScript holds only 53 of the 64 bits of a seed
  enums: String,
  defaults: true, // without it, fields that are zero would be undefined
  oneofs: true,
});

export const { GenerationService } = grpc.loadPackageDefinition(protos).outrider.v1;

/** Reads a message of `outrider.v1`; throws for bytes that are none. */
export const decode = (name, bytes) => protos[`outrider.v1.${name}`].deserialize(bytes);
