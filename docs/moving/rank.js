/* rank.js - one rank: a worker with the programs (extras/browser), and the few things that they need of a system: messages to
   the other ranks, two streams of text, a folder in memory, JSON. The page makes a worker of this function's text, since from
   file:// no worker can be loaded. */
"use strict";
function rankMain() {
    let rank, exports, memory, struck, ports, pace = 0, go = null;
    const encoder = new TextEncoder(), decoder = new TextDecoder();
    const bytes = (at, count) => new Uint8Array(memory.buffer, at, count), view = () => new DataView(memory.buffer);
    const text = (at, count = bytes(at).indexOf(0)) => decoder.decode(bytes(at, count).slice());
    const put = (at, string) => bytes(at, string.length + 1).set(encoder.encode(string + "\0"));
    const copy = (string) => { const at = exports.malloc(string.length + 1); put(at, string); return at; }; // ASCII alone
    class Exit { constructor(status) { this.status = status; } }

    /* ---- messages. A rank that is gone sends one last: why. pace: milliseconds that a message takes, or "step", then it
       waits for the reader. ---- */
    const inbox = [[], [], [], []], wakes = [];
    const arrive = (from, message) => {
        if (wakes[from]) { wakes[from](message); wakes[from] = null; } else inbox[from].push(message);
    };
    async function receive(from, call, callBytes, data, count) {
        const message = inbox[from].shift() ?? await new Promise((wake) => { wakes[from] = wake; });
        if (message.gone !== undefined) { put(call, message.gone.slice(0, callBytes - 1)); return 2; }
        if (pace && !(pace === "step" && message.call.startsWith("broadcast"))) { // whose chunks are many
            postMessage({ held: from });
            await new Promise((wake) => { go = wake; if (pace !== "step") setTimeout(wake, pace); });
        }
        postMessage({ from });
        put(call, message.call);
        if (message.data.length !== count) return 1;
        bytes(data, count).set(message.data);
        return 0;
    }
    const page = {
        page_rank: () => rank,
        page_struck: (line) => struck.includes(line) ? 1 : 0,
        page_send(to, call, data, count) {
            const message = { call: text(call), data: bytes(data, count).slice() };
            ports[to].postMessage(message, [message.data.buffer]);
            postMessage({ to, count, call: message.call });
        },
        page_step(step, loss, weights, count) { // FNV-1a, of words: equal weights have equal hashes, and others almost never
            let hash = 2166136261;
            for (const word of new Uint32Array(memory.buffer, weights, count / 4)) hash = Math.imul(hash ^ word, 16777619);
            postMessage({ step, loss, hash: (hash >>> 0).toString(16).padStart(8, "0") });
        },
    };

    /* ---- jansson: a json_t is here, its value is in `values`; what follows a format lies in memory. Nothing is freed ---- */
    const values = new Map(), kind = (value) => Array.isArray(value) ? 1 : { object: 0, string: 2, number: 3 }[typeof value];
    const keep = (value) => {
        if (value === undefined) return 0;
        const at = exports.malloc(8);
        view().setUint32(at, kind(value), true);
        view().setInt32(at + 4, -1, true); // the count of references that is never decreased
        values.set(at, value);
        return at;
    };
    const json = {
        json_string: (at) => keep(text(at)), json_integer: (value) => keep(Number(value)), json_array: () => keep([]),
        json_array_append_new: (array, value) => (values.get(array).push(values.get(value)), 0),
        json_array_size: (array) => values.get(array).length, json_array_get: (array, i) => keep(values.get(array)[i]),
        json_integer_value: (value) => BigInt(values.get(value)), json_copy: (object) => keep({ ...values.get(object) }),
        json_object_get: (object, key) => keep(values.get(object)[text(key)]),
        json_object_set_new: (object, key, value) => (values.get(object)[text(key)] = values.get(value), 0),
        json_object_del: (object, key) => delete values.get(object)[text(key)] - 1,
        json_object_iter_at: (object, key) => copy(text(key)), json_object_iter_key: (entry) => entry,
        json_pack(format, at) { // two formats: {s:{}}, and a tensor's {s:s, s:o, s:[I,I]}
            const [word, long] = [(i) => view().getUint32(at + i, true), (i) => Number(view().getBigInt64(at + i, true))], key = (i) => text(word(i));
            return keep(text(format) === "{s:{}}" ? { [key(0)]: {} } : { [key(0)]: key(4), [key(8)]: values.get(word(12)), [key(16)]: [long(24), long(32)] });
        },
        json_unpack_ex(value, problem, flags, format, at) { // a tensor again
            const own = values.get(value), word = (i) => view().getUint32(at + i, true), [begin, end] = own[text(word(16))];
            view().setUint32(word(4), copy(own[text(word(0))]), true);
            view().setUint32(word(12), keep(own[text(word(8))]), true);
            view().setBigInt64(word(20), BigInt(begin), true);
            view().setBigInt64(word(24), BigInt(end), true);
            return 0;
        },
        json_dumps(value, flags) {
            const own = values.get(value), sorted = flags & 0x80; // JSON_SORT_KEYS
            return copy(JSON.stringify(sorted ? Object.fromEntries(Object.entries(own).sort()) : own));
        },
    };

    /* ---- the system (WASI preview 1): every folder is there, and a file is only written. What is not here does nothing ---- */
    const open = [], OK = 0, BADF = 8, FOLDER = 3;
    const list = (strings) => ({
        sizes(count, size) {
            view().setUint32(count, strings.length, true);
            view().setUint32(size, strings.join("0").length + 1, true);
            return OK;
        },
        get(at, into) {
            for (const string of strings) { view().setUint32(at, into, true); put(into, string); at += 4; into += string.length + 1; }
            return OK;
        },
    });
    const system = {
        clock_time_get: (id, precision, at) => { view().setBigUint64(at, BigInt(Math.round(performance.now() * 1e6)), true); return OK; },
        random_get: (at, count) => { crypto.getRandomValues(bytes(at, count)); return OK; },
        proc_exit: (status) => { throw new Exit(status); },
        fd_fdstat_get(fd, at) {
            bytes(at, 24).fill(0xff);
            view().setUint32(at, fd === 3 ? FOLDER : 2, true);
            return OK;
        },
        path_filestat_get: (fd, flags, at, count, to) => { bytes(to, 64).fill(0); bytes(to + 16, 1)[0] = FOLDER; return OK; },
        fd_prestat_get(fd, at) {
            if (fd !== 3) return BADF;
            view().setUint32(at, 0, true);
            view().setUint32(at + 4, 1, true);
            return OK;
        },
        fd_prestat_dir_name: (fd, at) => { bytes(at, 1)[0] = 47; return OK; },
        fd_write(fd, vectors, count, written) {
            let total = 0;
            for (let i = 0; i < count; i++, vectors += 8) {
                const piece = bytes(view().getUint32(vectors, true), view().getUint32(vectors + 4, true)).slice();
                if (fd > 3) open[fd].pieces.push(piece);
                else if (piece.length > 0) postMessage({ text: decoder.decode(piece), fd });
                total += piece.length;
            }
            view().setUint32(written, total, true);
            return OK;
        },
        path_open(fd, look, at, count, how, rights, more, flags, to) {
            open[Math.max(4, open.length)] = { name: text(at, count), pieces: [] };
            view().setUint32(to, open.length - 1, true);
            return OK;
        },
        path_rename(fd, at, count, fd2, to, toCount) { // a file is written aside, so now it is complete
            const file = open.find((one) => one?.name === text(at, count));
            postMessage({ file: text(to, toCount), data: new Blob(file.pieces.splice(0)) });
            return OK;
        },
    };

    /* ---- a rank that waits returns from all its calls, and enters them again when it goes on (binaryen's asyncify) ---- */
    async function run(module, args) {
        let pending = null, result = null;
        const woven = (...call) => {
            if (result !== null) { const known = result; result = null; exports.asyncify_stop_rewind(); return known; }
            pending = receive(...call);
            exports.asyncify_start_unwind(stack);
            return 0;
        };
        const typed = list(args), none = list([]);
        const wasi = { ...system, args_sizes_get: typed.sizes, args_get: typed.get, environ_sizes_get: none.sizes, environ_get: none.get };
        const absent = (own, name) => own[name] ?? (() => { throw Error(`${name} is not for a browser`); });
        const env = new Proxy({ ...page, ...json, page_receive: woven }, { get: absent });
        exports = (await WebAssembly.instantiate(module, { env, wasi_snapshot_preview1: new Proxy(wasi, { get: (own, name) => own[name] ?? (() => OK) }) })).exports;
        memory = exports.memory;
        exports._initialize();
        const stack = memory.grow(1) * 65536;
        view().setUint32(stack, stack + 8, true);
        view().setUint32(stack + 4, stack + 65536, true);
        for (;;) {
            const status = exports.__main_void();
            if (pending === null) return status;
            exports.asyncify_stop_unwind();
            result = await pending;
            pending = null;
            exports.asyncify_start_rewind(stack);
        }
    }
    onmessage = async ({ data }) => {
        if (data.gone !== undefined) return arrive(data.gone, { gone: data.reason });
        if (data.pace !== undefined) pace = data.pace;
        if (data.go || data.pace === 0) { go?.(); go = null; }
        if (!data.module) return;
        ({ rank, struck, ports } = data);
        ports.forEach((port, from) => { if (port) port.onmessage = (event) => arrive(from, event.data); });
        let status = 0;
        try { status = await run(data.module, data.args); } catch (error) {
            status = error instanceof Exit ? error.status : 70;
            if (!(error instanceof Exit)) postMessage({ text: `${error.stack ?? error}\n`, fd: 2 });
        }
        postMessage({ status });
    };
}
