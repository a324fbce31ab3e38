'use strict';
// An object graph in node: records of objects, arrays and strings, and a Map, are built, linked, visited in mixed
// order, partly replaced, and sorted.
//
// node.js BYTES SEED: BYTES is what the records take. Prints one line of JSON; the checksum is that of what was
// visited and of the sorted order.

const crypto = require('crypto');

const WORDS =
    'amber basket candle dragon engine forest guitar harbor island jungle kitchen ladder marble needle orange pepper';
const NAMES = WORDS.split(' ');

// One record, in several objects.
const RECORD_BYTES = 690;

// Numbers below 2^46 are exact.
let state = 1;
function draw(bound) {
    state = (state * 16807) % 2147483647;
    return state % bound;
}

function name() {
    return NAMES[draw(16)];
}

function record(id) {
    return {
        id,
        key: draw(1000000007),
        name: `${name()} ${name()} ${id}`,
        tags: [`${name()}-${draw(1000)}`, `${name()}-${draw(1000)}`],
        prices: [draw(100000) / 100, draw(100000) / 100, draw(100000) / 100],
        place: { city: `${name()} ${draw(500)}`, distance: draw(10000) / 10 },
        next: null,
    };
}

function main() {
    const bytes = Number(process.argv[2]);
    state = (Number(process.argv[3]) % 2147483646) + 1;
    const count = Math.floor(bytes / RECORD_BYTES);
    const seconds = () => performance.now() / 1000;

    const started = seconds();
    const records = [];
    const byName = new Map();
    for (let id = 0; id < count; id++) {
        const one = record(id);
        one.next = id > 0 ? records[draw(id)] : null;
        records.push(one);
        byName.set(one.name, one);
    }
    const built = seconds();
    let total = 0;
    for (let step = 0; step < count / 4; step++) {
        let one = byName.get(records[draw(count)].name);
        for (let far = 0; far < 4 && one; far++) {
            total = (total * 31 + one.key + one.tags[0].length + Math.floor(one.prices[1])) % 1000000007;
            one = one.next;
        }
        const target = records[draw(count)];
        target.tags = [`${name()}-${draw(1000)}`, `${name()}-${draw(1000)}`];
        target.place = { city: `${name()} ${draw(500)}`, distance: draw(10000) / 10 };
    }
    const visited = seconds();
    records.sort((left, right) => left.key - right.key || left.id - right.id);
    const sorted = seconds();

    const digest = crypto.createHash('sha256');
    for (const one of records) {
        digest.update(`${one.id} ${one.key} ${one.name} ${one.tags} ${one.place.city}`);
    }
    digest.update(String(total));
    const figures = { build_s: built - started, access_s: visited - built, sort_s: sorted - visited };
    console.log(JSON.stringify({ figures, checksum: digest.digest('hex') }));
}

main();
