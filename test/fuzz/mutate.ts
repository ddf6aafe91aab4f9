import { FRAME, frame, numberFrame } from "@user-group-service/testing/http2-frames";
import { Random } from "@user-group-service/testing/random";
import type { Exchange } from "./exchange.ts";
import type { Script, Step } from "./play.ts";

/** Every third script is a valid exchange that is split into two packets. All other scripts are mutated exchanges. */
const SPLIT_EVERY = 3;

/**
 * Distance between a split position and the next split position. The distance is a prime, and is greater than the
 * number of positions. So the fuzzer reaches every position.
 */
const STEP = 2 ** 31 - 1;

/** Generates an endless sequence of scripts. The seed determines every script. */
export function* cases(seed: number, corpus: readonly Exchange[]): Generator<Script, never> {
  const random = new Random(seed);
  const places = corpus.flatMap((exchange) =>
    Array.from({ length: exchange.pieces.reduce((sum, { length }) => sum + length, 0) }, (_, at) => ({ exchange, at })),
  );
  let place = random.below(places.length);
  for (let i = 0; ; i++) {
    if (i % SPLIT_EVERY !== 0) yield mutate(new Random(random.below(2 ** 32)), corpus);
    else {
      const { exchange, at } = places[place] as (typeof places)[number];
      yield splitAt(exchange, at);
      place = (place + STEP) % places.length;
    }
  }
}

const MAX_BYTES = 300_000;

function splitAt(exchange: Exchange, at: number): Script {
  const bytes = Buffer.concat(exchange.pieces);
  const { name, protocol, answers } = exchange;
  const steps = [bytes.subarray(0, at), bytes.subarray(at)].filter(({ length }) => length > 0).map(send);
  return { name: `${name}, split at ${at}`, protocol, steps, answers };
}

/** Returns a script that sends an exchange with one to three mutations. */
function mutate(random: Random, corpus: readonly Exchange[]): Script {
  const exchange = random.pick(corpus);
  let pieces = [...exchange.pieces];
  const changes = 1 + random.below(3);
  for (let i = 0; i < changes; i++) pieces = random.pick(CHANGES)(random, pieces, exchange, corpus);
  const bytes = Buffer.concat(pieces).subarray(0, MAX_BYTES);
  const steps = packets(random, bytes, pieces).map(send);
  const paused = steps.flatMap((step): Step[] =>
    random.chance(0.05) ? [step, { kind: "wait", ms: random.below(20) }] : [step],
  );
  return { name: exchange.name, protocol: exchange.protocol, steps: ended(random, paused) };
}

/** Ends or resets the connection after a random step, and drops later steps. In one of four cases, changes nothing. */
function ended(random: Random, steps: readonly Step[]): Step[] {
  const how = random.below(4);
  if (how === 0) return [...steps];
  const kind = how === 1 ? "end" : "reset";
  const at = random.chance(0.5) ? steps.length : random.below(steps.length + 1);
  return [...steps.slice(0, at), { kind }];
}

/** Returns the bytes as one packet, or as several packets: the pieces, single bytes, or parts with random lengths. */
function packets(random: Random, bytes: Buffer, pieces: readonly Buffer[]): Buffer[] {
  const how = random.below(10);
  if (how < 5 || bytes.length === 0) return [bytes];
  if (how < 7 && pieces.length < 60) return pieces.filter(({ length }) => length > 0);
  if (how === 9 && bytes.length < 600) return Array.from(bytes, (byte) => Buffer.of(byte));
  const cuts = Array.from({ length: 1 + random.below(6) }, () => random.below(bytes.length)).sort((a, b) => a - b);
  return [0, ...cuts].map((from, i) => bytes.subarray(from, cuts[i])).filter(({ length }) => length > 0);
}

function send(bytes: Buffer): Step {
  return { kind: "send", bytes };
}

type Change = (random: Random, pieces: Buffer[], exchange: Exchange, corpus: readonly Exchange[]) => Buffer[];

/** Creates a mutation that changes the bytes of one random piece. */
function inPiece(change: (random: Random, piece: Buffer) => Buffer): Change {
  return (random, pieces) => {
    if (pieces.length === 0) return pieces;
    const at = random.below(pieces.length);
    return pieces.map((piece, i) => (i === at ? change(random, Buffer.from(piece)) : piece));
  };
}

const flipBit = inPiece((random, piece) => {
  if (piece.length === 0) return piece;
  const at = random.below(piece.length);
  piece.writeUInt8(piece.readUInt8(at) ^ (1 << random.below(8)), at);
  return piece;
});

const setByte = inPiece((random, piece) => {
  if (piece.length > 0)
    piece.writeUInt8(random.pick([0, 1, 0x0a, 0x0d, 0x20, 0x3a, 0x7f, 0x80, 0xff]), random.below(piece.length));
  return piece;
});

const cut = inPiece((random, piece) => piece.subarray(0, random.below(piece.length + 1)));

const insert = inPiece((random, piece) => {
  const at = random.below(piece.length + 1);
  const text = random.chance(0.5) ? random.bytes(1 + random.below(20)) : Buffer.from(random.pick(TEXTS), "latin1");
  return Buffer.concat([piece.subarray(0, at), text, piece.subarray(at)]);
});

/** Strings with a special meaning in HTTP, URLs or JSON. */
const TEXTS = [
  ...[
    "\r\n",
    "\r\n\r\n",
    "\n",
    "0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
  ],
  ...[
    "Expect: 100-continue\r\n",
    "Expect: 200-ok\r\n",
    "Upgrade: h2c\r\nConnection: Upgrade\r\n",
    "Connection: close\r\n",
  ],
  ...[
    "Host: [::\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "%00",
    "%ff",
    "é",
    "..//",
    "http://a/",
    "*",
  ],
  ...["ffffffffffffffff\r\n", "{", "[[[[", '"__proto__":', "-1", "1e999", "\u0000", "CONNECT a:1 HTTP/1.1\r\n\r\n"],
];

const grow: Change = (random, pieces) => {
  const at = random.below(pieces.length + 1);
  const bytes = Buffer.alloc(random.pick([100, 5000, 20_000, 40_000, 70_000]), random.below(256));
  return [...pieces.slice(0, at), bytes, ...pieces.slice(at)];
};

const drop: Change = (random, pieces) => {
  const at = random.below(pieces.length);
  return pieces.filter((_piece, i) => i !== at);
};

const duplicate: Change = (random, pieces) => {
  if (pieces.length === 0) return pieces;
  const at = random.below(pieces.length);
  const times = random.pick([1, 1, 1, 5, 100]);
  return [...pieces.slice(0, at), ...Array.from({ length: times }, () => pieces[at] as Buffer), ...pieces.slice(at)];
};

const swap: Change = (random, pieces) => {
  const copy = [...pieces];
  const [a, b] = [random.below(copy.length), random.below(copy.length)];
  if (copy.length > 0) [copy[a], copy[b]] = [copy[b] as Buffer, copy[a] as Buffer];
  return copy;
};

const truncate: Change = (random, pieces) => pieces.slice(0, random.below(pieces.length + 1));

/** Inserts the pieces of another exchange. Both exchanges use the same stream ids. */
const interleave: Change = (random, pieces, { protocol }, corpus) => {
  const other = random.pick(random.chance(0.9) ? corpus.filter((exchange) => exchange.protocol === protocol) : corpus);
  const rest = other.pieces.slice(random.chance(0.8) && protocol === "h2" ? 3 : 0);
  const at = random.below(pieces.length + 1);
  return [...pieces.slice(0, at), ...rest, ...pieces.slice(at)];
};

const changeFrame = inPiece((random, piece) => {
  if (piece.length < 9) return piece;
  switch (random.below(5)) {
    case 0:
      piece.writeUInt8(random.below(12), 3);
      break;
    case 1:
      piece.writeUInt8(random.pick([0, 1, 4, 5, 8, 9, 0x20, 0x25, 0x2d, 0xff]), 4);
      break;
    case 2:
      piece.writeUInt32BE(random.pick([0, 1, 2, 3, 5, 7, 101, 0x7fffffff, 0xffffffff]), 5);
      break;
    case 3:
      piece.writeUIntBE(
        random.pick([0, 1, piece.length - 10, piece.length - 8, 16_384, 16_385, 0xffffff]) & 0xffffff,
        0,
        3,
      );
      break;
    default:
      // Sets the flag PADDED. The first byte of the payload then is the length of the padding.
      piece.writeUInt8(piece.readUInt8(4) | 8, 4);
  }
  return piece;
});

/** Inserts a frame with a correct length field. The frame may be invalid at its position. */
const addFrame: Change = (random, pieces) => {
  const stream = random.pick([0, 1, 1, 3, 5, 23, 2, 0x7fffffff]);
  const made = random.pick([
    () => numberFrame(FRAME.reset, stream, random.below(15)),
    () => numberFrame(FRAME.reset, 1, 8),
    () => numberFrame(FRAME.windowUpdate, stream, random.pick([0, 1, 65_535, 0x7fffffff])),
    () => frame(FRAME.settings, random.below(2), 0, Buffer.concat([Buffer.of(0, random.below(9)), random.bytes(4)])),
    () => frame(FRAME.settings, 0, 0, Buffer.of(0, 4, 0, 0, 0, 0)),
    () => frame(FRAME.settings, 0, 0, Buffer.of(0, 1, 0, 0, 0, 0)),
    () => frame(FRAME.ping, random.below(2), 0, random.bytes(8)),
    () => frame(FRAME.goAway, 0, 0, Buffer.concat([Buffer.of(0, 0, 0, 1), Buffer.alloc(4)])),
    () => frame(FRAME.data, random.below(2), stream, random.bytes(random.below(40))),
    () => frame(FRAME.continuation, random.pick([0, 4]), stream, random.bytes(random.below(20))),
    () => frame(FRAME.priority, 0, stream, random.bytes(5)),
    () => frame(FRAME.push, 4, stream, random.bytes(8)),
    () => frame(FRAME.headers, random.pick([4, 5]), stream, Buffer.from([0x82, 0x86, 0x84, 0x41, 1, 0x78])),
  ])();
  const at = random.below(pieces.length + 1);
  return [...pieces.slice(0, at), made, ...pieces.slice(at)];
};

const CHANGES: readonly Change[] = [
  ...[flipBit, flipBit, setByte, cut, insert, insert, grow, drop, duplicate, swap, truncate, interleave],
  ...[changeFrame, changeFrame, changeFrame, addFrame, addFrame, addFrame],
];
