// Reads an event of leaderbridge from a NATS message, in either content mode.

import { HTTP } from "cloudevents";

const types = new Set(["became-leader", "stopped-leading", "new-leader"].map((t) => `io.leaderbridge.${t}.v1`));

// decode returns the event's facts, or undefined for a type that this program
// does not know. It throws when the message is no event.
export function decode(headers, data) {
  const body = Buffer.from(data).toString("utf8");
  const event = HTTP.toEvent({ headers: forSDK(headers), body });
  if (!types.has(event.type)) return undefined;
  const { epoch, leader, reason } = event.data ?? {};
  // The number in the data is a number in both modes; the extension is text in
  // the binary one.
  if (!Number.isInteger(epoch) || epoch < 1 || Number(event.epoch) !== epoch) {
    throw new Error("the epoch is missing or contradicts itself");
  }
  if (typeof leader !== "string") throw new Error("no leader is given");
  return { id: event.id, source: event.source, type: event.type, time: event.time, epoch, leader, reason };
}

// forSDK turns the headers of NATS into those of HTTP, whose reader the SDK
// has. The two bindings differ in the header for the type of the data, and the
// SDK does not undo the percent-encoding of values.
function forSDK(headers) {
  const out = {};
  for (const [name, values] of headers ?? []) {
    const key = name.toLowerCase();
    out[key] = key.startsWith("ce-") ? decodeURIComponent(values[0]) : values[0];
  }
  if (out["ce-specversion"] && !out["content-type"]?.startsWith("application/cloudevents")) {
    out["content-type"] = out["ce-datacontenttype"] ?? "application/json";
    delete out["ce-datacontenttype"];
  } else {
    // A structured event without a header is one that the CloudEvents SDK for
    // Go has sent.
    out["content-type"] = "application/cloudevents+json";
  }
  return out;
}
