/* The picture of an all-reduce: replays recorded messages (ring.html has them). */
"use strict";
const TRAVEL = 900, REST = 550; // milliseconds: a message on its way; between two steps when playing
const NAMES = { ring: "ring", doubling: "recursive doubling", star: "star" };
let way = "ring", n = 4, at = 0, watched = 0, playing = 0, frame = 0;
let blocks, stops; // how many parts the array has; what there is to see: the start, then each step

const messagesOf = (name, ranks) => data.messages[name][ranks].map((row) => Object.fromEntries(data.fields.map((f, i) => [f, row[i]])));
const partsOf = (name, ranks) => name === "ring" ? ranks : 1;
const bytesOf = (name, ranks) => 4 * data.elements / partsOf(name, ranks); // of a message

/* Replays the messages: what each rank has after each step, as bits of the ranks whose numbers are in a block. */
function replay() {
    const messages = messagesOf(way, n);
    blocks = partsOf(way, n);
    let have = Array.from({ length: n }, (_, r) => Array(blocks).fill(1 << r)), sent = Array(n).fill(0);
    stops = [{ moves: [], have, sent }];
    for (let step = 0; step <= messages.at(-1).step; step++) {
        const moves = messages.filter((m) => m.step === step).map((m) => ({ ...m, what: have[m.rank][m.block] }));
        have = have.map((own) => own.slice());
        sent = sent.slice();
        for (const m of moves) {
            have[m.to][m.block] = m.adds ? have[m.to][m.block] | m.what : m.what;
            sent[m.rank] += bytesOf(way, n);
        }
        stops.push({ step, moves, have, sent });
    }
}

/* Sizes in the drawing's units. On a phone there are fewer of them, so that words stay as large. */
function sizes() {
    const large = onSlide(), s = small.matches || large, size = s ? 400 : 720;
    const row = blocks === 1 ? (s ? 22 : 38) : s ? [0, 0, 24, 19, 15, 11, 9, 7.8, 6.8][n] : [0, 0, 46, 37, 29, 22, 17, 14, 12][n];
    const width = s ? [0, 0, 132, 122, 112, 88, 80, 68, 62][n] : [0, 0, 230, 220, 200, 160, 140, 124, 112][n];
    const plate = large ? 22 : s ? 19 : 26, height = plate + blocks * row + 7;
    return { s, size, row, width, plate, height, font: large ? 16 : s ? 12 : 15, r: size / 2 - Math.max(height, n === 4 || n === 8 ? width : 0) / 2 - 5, names: row >= 11 && blocks > 1 ? (s ? 12 : 16) : 0 };
}
const place = (z, rank) => {
    const a = 2 * Math.PI * rank / n - Math.PI / 2;
    return [z.size / 2 + z.r * Math.cos(a), z.size / 2 + z.r * Math.sin(a)];
};
const f = (x) => +x.toFixed(1);
const rect = (x, y, w, h, rx, more) => `<rect x="${f(x)}" y="${f(y)}" width="${f(w)}" height="${f(h)}" rx="${rx}" ${more}/>`;
const words = (x, y, text, more = "") => `<text x="${f(x)}" y="${f(y)}" ${more}>${text}</text>`;

/* One block: a slot for each source rank, filled if that rank's numbers are in the sum. */
function segments(z, x, y, w, bits) {
    const step = w / n, gap = n > 5 ? 1 : 2;
    let out = "";
    for (let r = 0; r < n; r++) out += rect(x + r * step, y + 1, step - gap, z.row - 2, 2, `class="${bits >> r & 1 ? "r" + r : "slot"}"`);
    return out;
}

/* The ways that messages take: the ring's circle, or lines between the ranks that exchange any. */
function ways(z) {
    const mid = z.size / 2;
    if (way === "ring") {
        let out = `<circle class="way" cx="${mid}" cy="${mid}" r="${f(z.r)}"/>`;
        for (let r = 0; r < n; r++) // an arrow head on the way to the next rank
            out += `<path class="tip" d="M-6-7L7 0L-6 7z" transform="rotate(${f(360 * (r + 0.5) / n - 90)} ${mid} ${mid}) translate(${f(mid + z.r)} ${mid}) rotate(90)"/>`;
        return out;
    }
    const pairs = new Set(messagesOf(way, n).map((m) => [Math.min(m.rank, m.to), Math.max(m.rank, m.to)].join()));
    return [...pairs].map((pair) => {
        const [[x, y], [u, v]] = pair.split(",").map((r) => place(z, +r));
        return `<line class="way" x1="${f(x)}" y1="${f(y)}" x2="${f(u)}" y2="${f(v)}"/>`;
    }).join("");
}

function drawRank(z, stop, r) {
    const all = (1 << n) - 1, [cx, cy] = place(z, r), x = cx - z.width / 2, y = cy - z.height / 2;
    let out = `<g data-rank="${r}">` + rect(x, y, z.width, z.height, z.s ? 7 : 10, `class="box${r === watched ? " watched" : ""}"`);
    out += rect(x + 4, y + 4, z.s ? 24 : 34, z.plate - 6, 5, `class="r${r}"`);
    out += words(x + 4 + (z.s ? 12 : 17), y + 1 + z.plate / 2 + z.font * 0.36, r, `class="o${r}" text-anchor="middle" font-weight="700" font-size="${z.font}"`);
    const full = stop.have[r].filter((bits) => bits === all).length;
    if (full) out += words(x + z.width - 6, y + 1 + z.plate / 2 + z.font * 0.3, full === blocks ? "✓ all" : (z.width > 100 ? `✓ ${full} of ${blocks}` : `✓ ${full}`), `class="done" text-anchor="end" font-size="${z.font - 2}"`);
    for (let b = 0; b < blocks; b++) {
        const top = y + z.plate + 2 + b * z.row, left = x + 5 + z.names, w = z.width - 10 - z.names;
        if (z.names) out += words(x + 5 + z.names / 2 - 1, top + z.row / 2 + 4, b, `class="m" text-anchor="middle" font-size="${Math.min(z.font - 2, z.row)}"`);
        out += segments(z, left, top, w, stop.have[r][b]);
        if (stop.have[r][b] === all) out += rect(left - 1, top + 0.5, w + 1 - (n > 5 ? 0 : 1), z.row - 1, 3, 'class="whole"');
        if (stop.moves.some((m) => m.to === r && m.block === b)) out += rect(left - 2, top - 0.5, w + 2, z.row + 1, 4, 'class="got"');
    }
    return out + "</g>";
}

function drawMessage(z, m) {
    const w = n > 6 ? z.width * 0.55 : z.width * 0.62, h = Math.max(z.row, 10) + (n > 6 ? 5 : 8), side = blocks > 1 ? (z.s ? 12 : 18) : 0;
    return `<g class="move" data-rank="${m.rank}" data-to="${m.to}">` + rect(-w / 2 - side / 2 - 3, -h / 2, w + side + 6, h, 6, 'class="chip"') +
        (side ? words(-w / 2, Math.min(z.font - 1, z.row + 4) * 0.36, m.block, `text-anchor="middle" font-weight="700" font-size="${Math.min(z.font - 1, z.row + 4)}"`) : "") +
        segments(z, -w / 2 + (side ? side / 2 - 3 : 0), -z.row / 2, w, m.what) + "</g>";
}

const phase = (stop) => stop.step === undefined ? "start" : way !== "ring" ? NAMES[way] : stop.moves[0].adds ? "reduce-scatter" : "all-gather";

function draw(stop, chips) {
    const z = sizes(), mid = z.size / 2;
    let out = ways(z);
    for (let r = 0; r < n; r++) out += drawRank(z, stop, r);
    const busiest = Math.max(...stop.sent) / (4 * data.elements);
    const lines = [phase(stop), stop.step === undefined ? `${n} ranks, ${blocks} block${blocks > 1 ? "s" : ""}` : `step ${stop.step + 1} of ${stops.length - 1}`,
        onSlide() ? `${busiest.toFixed(2)} arrays sent` : `busiest sent ${busiest.toFixed(2)} arrays`];
    const [left, top, anchor] = way === "ring" ? [mid, mid - (z.s ? 14 : 22), "middle"] : [4, z.s ? 16 : 26, "start"]; // not where lines cross
    out += lines.map((line, i) => words(left, top + i * (z.s ? 19 : 28), line, `class="${i ? "m" : ""}" text-anchor="${anchor}" font-weight="${i ? 400 : 700}" font-size="${i ? (z.s ? Math.max(12, z.font - 1) : 17) : (z.s ? Math.max(15, z.font) : 24)}"`)).join("");
    if (chips) out += stop.moves.map((m) => drawMessage(z, m)).join("");
    const what = stop.moves.length ? `Step ${stop.step + 1}: ${stop.moves.length} message${stop.moves.length > 1 ? "s" : ""}.` : "Each rank has only its own numbers.";
    return `<svg viewBox="0 0 ${z.size} ${z.size}" role="img" aria-label="${n} ranks, ${NAMES[way]}. ${what}">${out}</svg>`;
}

/* Puts the messages on their way; 0 is at the sender, 1 at the receiver. Two that cross pass beside each other. */
function move(progress) {
    const z = sizes();
    for (const g of document.querySelectorAll(".move")) {
        const from = +g.dataset.rank, to = +g.dataset.to;
        let [x, y] = place(z, from + progress);
        if (way !== "ring") {
            const [[a, b], [c, d]] = [place(z, from), place(z, to)], length = Math.hypot(c - a, d - b);
            const beside = (z.s ? 14 : 26) * Math.sin(Math.PI * progress);
            x = a + (c - a) * progress + beside * (d - b) / length;
            y = b + (d - b) * progress - beside * (c - a) / length;
        }
        g.setAttribute("transform", `translate(${f(x)} ${f(y)})`);
    }
}

const MB = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;
const list = (bits) => Array.from({ length: n }, (_, r) => r).filter((r) => bits >> r & 1).join(" + ");

/* Which lines of the code execute for the watched rank in this step. */
function marked(stop) {
    const sends = stop.moves.find((m) => m.rank === watched), gets = stop.moves.find((m) => m.to === watched);
    if (!sends && !gets) return [];
    const adds = (gets ?? sends).adds;
    if (way === "ring") return [/exchange\(mesh/, adds ? /go_round\(mesh.*true/ : /go_round\(mesh.*false/];
    if (way === "star") return [adds ? /direct_collective/ : gets ? /message_receive/ : /message_send/];
    let power = 1;
    while (2 * power <= n) power *= 2;
    if (watched >= power) return [sends ? /message_send\(mesh, rank - power/ : /message_receive\(mesh, rank - power/];
    return [sends && gets ? /exchange\(mesh/ : gets ? /message_receive\(mesh, extra/ : /message_send\(mesh, extra/];
}

function sentence(stop) {
    const sends = stop.moves.find((m) => m.rank === watched), gets = stop.moves.find((m) => m.to === watched);
    const piece = (m) => blocks > 1 ? `block ${m.block}` : "its array";
    if (stop.step === undefined) return `Before the first step: rank r has only its own numbers${blocks > 1 ? `, in all ${n} blocks` : ""}.`;
    const out = sends && `sends ${piece(sends)} to rank ${sends.to}`;
    const into = gets && (gets.adds ? `adds what rank ${gets.rank} sends: ${list(stop.have[watched][gets.block])}` : `keeps the sum from rank ${gets.rank}`);
    return out || into ? `Rank ${watched} ${[out, into].filter(Boolean).join(", and ")}.` : `Rank ${watched} has nothing to do in this step.`;
}

function describe(stop) {
    $("now").textContent = sentence(stop);
    markCode(marked(stop));
    const last = stop.moves.filter((m) => m.rank === watched || m.to === watched).map((m) => m.us);
    $("values").textContent = last.length ? `rank ${watched}; in the recording this had arrived ${(Math.max(...last) / 1000).toFixed(1)} ms after the first call` : `rank ${watched} of ${n}`;
    for (const [r, row] of [...$("bytes").children].entries()) {
        row.querySelector("i").style.transform = `scaleX(${stop.sent[r] / (4 * data.elements * Math.max(2, n - 1))})`;
        row.querySelector("span").textContent = MB(stop.sent[r]);
    }
    $("at").value = at;
    $("atis").textContent = `${at} of ${stops.length - 1}`;
    $("at").setAttribute("aria-valuetext", `${phase(stop)}, ${at} of ${stops.length - 1}`);
    $("previous").disabled = at === 0;
    $("next").disabled = at === stops.length - 1;
    $("play").textContent = playing ? "Pause" : at === stops.length - 1 ? "Again" : "Play";
}

/* Shows stop TO. One step forward travels; any other jump does not. */
function go(to, travel = true) {
    cancelAnimationFrame(frame);
    const before = stops[at], step = to === at + 1 && travel;
    at = Math.max(0, Math.min(stops.length - 1, to));
    const stop = stops[at], shown = () => {
        $("ring").innerHTML = draw(stop, still.matches);
        move(0.5); // without motion the messages stand half way
        if (playing) playing = setTimeout(() => at < stops.length - 1 ? go(at + 1) : pause(), still.matches ? 3 * REST : REST);
    };
    describe(stop);
    if (!step || still.matches || !stop.moves.length) return shown();
    $("ring").innerHTML = draw({ ...before, step: stop.step, moves: stop.moves.map((m) => ({ ...m, to: -1 })) }, false);
    $("ring").firstChild.insertAdjacentHTML("beforeend", stop.moves.map((m) => drawMessage(sizes(), m)).join(""));
    let began = 0;
    const next = (now) => {
        began ||= now;
        const p = Math.min(1, (now - began) / TRAVEL);
        move(p < 0.5 ? 4 * p * p * p : 1 - (2 - 2 * p) ** 3 / 2);
        if (p < 1) frame = requestAnimationFrame(next);
        else shown();
    };
    move(0);
    frame = requestAnimationFrame(next);
}

function pause() {
    clearTimeout(playing);
    playing = 0;
    $("play").textContent = at === stops.length - 1 ? "Again" : "Play";
}
function play() {
    if (playing) return pause();
    playing = 1;
    if (at === stops.length - 1) go(0, false);
    else go(at + 1);
}
function step(by) {
    pause();
    if (at + by >= 0 && at + by < stops.length) go(at + by);
}

/* The numbers of all three algorithms, from their recorded messages. */
function sides() {
    $("sized").textContent = `${n} ranks`;
    $("sides").innerHTML = Object.keys(NAMES).map((name) => {
        const messages = messagesOf(name, n), counts = Array(n).fill(0);
        for (const m of messages) counts[m.rank]++;
        const most = Math.max(...counts);
        return `<tr class="${name === way ? "on" : ""}"><td>${NAMES[name]}<td>${messages.at(-1).step + 1}<td>${MB(most * bytesOf(name, n))}<td>${most}`;
    }).join("");
}

function choose(name, count) {
    way = name; n = count; at = 0; watched = Math.min(watched, n - 1);
    replay();
    pause();
    $("n").value = n; $("nis").textContent = `n = ${n}`; $("at").max = stops.length - 1;
    for (const b of document.querySelectorAll("[data-way]")) b.setAttribute("aria-pressed", b.dataset.way === way);
    $("bytes").innerHTML = Array.from({ length: n }, (_, r) => `<li><button type="button" aria-label="Watch rank ${r}" aria-pressed="${r === watched}" style="background:var(--rank-${r});color:var(--rank-${r}-on)">${r}</button><div class="track"><i></i></div><span></span></li>`).join("");
    $("whole").textContent = `array: ${MB(4 * data.elements)}`;
    showCode(data.code[way]);
    sides();
    go(0, false);
}
function watch(rank) {
    watched = rank;
    for (const [r, b] of [...$("bytes").querySelectorAll("button")].entries()) b.setAttribute("aria-pressed", r === rank);
    if (!document.querySelector(".move")) { $("ring").innerHTML = draw(stops[at], still.matches); move(0.5); }
    describe(stops[at]);
}

$("previous").onclick = () => step(-1);
$("next").onclick = () => step(1);
$("play").onclick = play;
$("n").oninput = () => choose(way, +$("n").value);
$("at").oninput = () => { pause(); go(+$("at").value, false); };
$("bytes").onclick = (e) => { const b = e.target.closest("button"); if (b) watch(+b.textContent); };
$("ring").onclick = (e) => { const g = e.target.closest("[data-rank]"); if (g && !g.matches(".move")) watch(+g.dataset.rank); };
document.querySelector("[aria-label=Algorithm]").onclick = (e) => { const b = e.target.closest("[data-way]"); if (b) choose(b.dataset.way, n); };
document.onkeydown = (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const slider = e.target.matches("input"), button = e.target.matches("button");
    const act = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => { pause(); go(0, false); }, End: () => { pause(); go(stops.length - 1, false); } }[e.key];
    const name = { r: "ring", d: "doubling", s: "star" }[e.key.toLowerCase()];
    if (act && !slider) act();
    else if (e.key === " " && !slider && !button) play();
    else if (/^[2-8]$/.test(e.key)) choose(way, +e.key);
    else if (name) choose(name, n);
    else return;
    e.preventDefault();
};
small.onchange = still.onchange = () => go(at, false);
if (slideState !== undefined) onresize = small.onchange;
$("controls").hidden = $("keys").hidden = false;
/* ring.html#way=star&n=8&at=3 is a link to a frame, for slides and texts. */
function show() {
    const wanted = linked();
    choose(NAMES[wanted.get("way")] ? wanted.get("way") : "ring", Math.max(2, Math.min(8, +wanted.get("n") || 4)));
    go(+wanted.get("at") || 0, false);
}
window.onhashchange = show;
show();
