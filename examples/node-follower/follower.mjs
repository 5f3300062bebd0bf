// Follows the log of leaderbridge and writes down who leads: one line of JSON
// for each transition, in a file. It may be killed at any moment. After a
// restart it goes on behind the last line, loses nothing and applies nothing
// twice.
//
//   NATS_URL=nats://127.0.0.1:4222 node follower.mjs journal.jsonl
//
// The rules that it keeps are those of docs/events.md, "What a consumer must
// do". NATS_CREDS names a credentials file. SIGTERM ends it with 0.

import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect, credsAuthenticator } from "@nats-io/transport-node";
import { decode } from "./event.mjs";
import { Journal } from "./journal.mjs";

const stream = "LEADERBRIDGE";
const subjects = "leaderbridge.event.>";

const file = process.argv[2];
if (!file) {
  console.error("usage: node follower.mjs JOURNAL");
  process.exit(2);
}

const say = (what, facts) => console.log(JSON.stringify({ what, ...facts }));

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => stop.abort());
}

// handle applies one message of the log, or says why it does not.
function handle(journal, message) {
  let event;
  try {
    event = decode(message.headers, message.data);
  } catch (err) {
    // Whoever may publish on the subjects can put anything there.
    say("skipped", { sequence: message.seq, why: `no event: ${err.message}` });
    return;
  }
  if (!event) {
    say("skipped", { sequence: message.seq, why: "a type of a later version" });
    return;
  }
  const why = journal.refuses(event);
  if (why) {
    say("ignored", { sequence: message.seq, id: event.id, why });
    return;
  }
  journal.apply(message.seq, event);
  say("applied", { sequence: message.seq, id: event.id, epoch: event.epoch, leader: event.leader });
}

// follow reads the log from behind the last applied message until the feed
// ends. The ordered consumer is in memory only and begins anew by itself after
// an interruption: where this program stands is known to the journal alone.
async function follow(nc, journal) {
  const manager = await jetstreamManager(nc);
  const { state } = await manager.streams.info(stream);
  let next = journal.position + 1;
  if (state.last_seq < journal.position) {
    // The stream was made anew or restored. Read all of it: epochs and ids
    // keep out what was applied before.
    say("rewound", { position: journal.position, last: state.last_seq });
    next = 1;
  } else if (state.first_seq > next) {
    say("gap", { from: next, to: state.first_seq - 1, why: "removed by the stream's limits" });
  }
  const consumer = await jetstream(nc).consumers.get(stream, {
    filter_subjects: subjects,
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: next,
  });
  const messages = await consumer.consume({ abort_on_missing_resource: true });
  const close = () => messages.stop();
  stop.signal.addEventListener("abort", close, { once: true });
  say("following", { from: next });
  try {
    for await (const message of messages) {
      if (stop.signal.aborted) break;
      handle(journal, message);
    }
  } finally {
    stop.signal.removeEventListener("abort", close);
  }
}

const journal = Journal.open(file);
const nc = await connect({
  servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222",
  authenticator: process.env.NATS_CREDS ? credsAuthenticator(readFileSync(process.env.NATS_CREDS)) : undefined,
  name: "leaderbridge-node-follower",
  maxReconnectAttempts: -1,
  waitOnFirstConnect: true,
});
let trouble; // what was said last, since it is tried again every second
while (!stop.signal.aborted) {
  try {
    await follow(nc, journal);
    trouble = undefined;
  } catch (err) {
    // No stream yet, no rights, or NATS is away: none of these is for ever.
    if (!stop.signal.aborted && err.message !== trouble) {
      trouble = err.message;
      say("waiting", { why: trouble });
    }
  }
  await pause(1000, undefined, { signal: stop.signal }).catch(() => {});
}
await nc.close();
journal.close();
