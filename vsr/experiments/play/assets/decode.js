// Undoes what experiments/play/packing.py does: base64, deflate, bytes of seven bits, differences of differences.
"use strict";

function bytesOfText(text) {
  const binary = atob(text);
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function numbersOfBytes(bytes, count) {
  const numbers = new Float64Array(count);
  let place = 0;
  for (let i = 0; i < count; i++) {
    let value = 0, weight = 1, byte;
    do {
      byte = bytes[place++];
      value += (byte & 127) * weight;
      weight *= 128;
    } while (byte > 127);
    numbers[i] = value % 2 ? -(value + 1) / 2 : value / 2;
  }
  return numbers;
}

// Every quantity by its name: an array with the series one after the other, each as long as there are moments.
async function unpack(packed) {
  const total = packed.streams.reduce((sum, stream) => sum + stream.series * packed.moments, 0);
  const numbers = numbersOfBytes(await inflate(bytesOfText(packed.data)), total);
  const found = {};
  let place = 0;
  for (const stream of packed.streams) {
    const values = numbers.subarray(place, (place += stream.series * packed.moments));
    for (let start = 0; start < values.length; start += packed.moments)
      for (let order = 0; order < packed.order; order++)
        for (let i = start + 1; i < start + packed.moments; i++) values[i] += values[i - 1];
    for (let i = 0; i < values.length; i++) values[i] *= stream.quantum;
    found[stream.name] = values;
  }
  return found;
}

if (typeof module !== "undefined") module.exports = { unpack };
