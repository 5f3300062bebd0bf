// The journal is what this program has done and where it stands, in one: the
// line that says what was applied also says up to where. So a crash can never
// come between the two. With a database, write both in one transaction.

import { closeSync, existsSync, fdatasyncSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs";

export class Journal {
  #fd;
  // For each election, by its source: the greatest epoch, and the ids that
  // were applied in it.
  #elections = new Map();
  // The sequence in the stream of the last event that was applied.
  position = 0;

  static open(file) {
    const journal = new Journal();
    if (existsSync(file)) {
      const bytes = readFileSync(file);
      // A line without an end is a write that a crash has cut off.
      const whole = bytes.lastIndexOf("\n") + 1;
      truncateSync(file, whole);
      for (const line of bytes.toString("utf8", 0, whole).split("\n")) {
        if (line) journal.#note(JSON.parse(line));
      }
    }
    journal.#fd = openSync(file, "a", 0o600);
    return journal;
  }

  // refuses tells why an event must not be applied, or returns undefined.
  refuses({ source, id, epoch }) {
    const seen = this.#elections.get(source);
    if (!seen) return undefined;
    if (epoch < seen.epoch) return `epoch ${epoch} is over, ${seen.epoch} was seen`;
    if (epoch === seen.epoch && seen.ids.has(id)) return "applied before";
    return undefined;
  }

  apply(sequence, event) {
    const record = { sequence, ...event };
    writeSync(this.#fd, JSON.stringify(record) + "\n");
    fdatasyncSync(this.#fd);
    this.#note(record);
  }

  close() {
    closeSync(this.#fd);
  }

  #note({ sequence, source, id, epoch }) {
    const seen = this.#elections.get(source);
    if (seen?.epoch === epoch) seen.ids.add(id);
    else this.#elections.set(source, { epoch, ids: new Set([id]) });
    this.position = sequence;
  }
}
