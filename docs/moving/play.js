/* play.js - the page around the ranks: asks first, starts them, draws what they tell, kills them. */
"use strict";
const RATES = [0.01, 0.1], BATCHES = [8, 16], ROWS = 320, EPOCHS = 2, NS = "http://www.w3.org/2000/svg";
const LINES = ["broadcast", "set_epoch", "zero_grad", "set_grad_hook", "reducer_finalize", "all_reduce"]; // as in struck.h
const WHY = new Map([...$("why").querySelectorAll("dt")].map((name) => [name.textContent, name.nextElementSibling.textContent]));
const native = JSON.parse($("native").textContent), ranksScript = document.currentScript.dataset.ranks;
const asked = linked(), PACES = { fast: 0, slow: 900, step: "step" };
let program = "02", n = 4, struck = new Set(), pace = "fast", guess = null, ranks = [], module = null, began = 0, ended = null, ticking = 0, source = "";

const make = (name, attributes, text) => {
    const element = document.createElementNS(NS, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return element;
};
const size = (bytes) => bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
const setting = () => ({ lr: RATES[$("lr").value], batch: BATCHES[$("batch").value] });
const options = () => `--device plain --lr ${setting().lr} --batch-size ${setting().batch} --num-samples ${ROWS} --epochs ${EPOCHS} --save-every 0`;
const runs = () => ranks.some((rank) => !rank.over);

/* ---- the ranks and the messages on their way ---- */
const PLACES = [[], [[350, 156]], [[115, 156], [585, 156]], [[350, 62], [585, 250], [115, 250]], [[115, 62], [585, 62], [585, 250], [115, 250]]];
const place = (rank) => PLACES[n][rank];
function drawRing() {
    const pairs = Array.from({ length: n }, (_, a) => Array.from({ length: a }, (_, b) => `M${place(a)}L${place(b)}`));
    $("ways").setAttribute("d", pairs.flat().join(""));
    for (let r = 0; r < 4; r++) {
        const [x, y] = place(r) ?? [0, 0];
        $(`node${r}`).setAttribute("transform", `translate(${x - 105},${y - 52})`);
        $(`node${r}`).toggleAttribute("hidden", r >= n);
        for (const part of ["loss", "sent", "print"]) say(r, part, "");
        mark(r, "", "not started");
    }
    $("moves").replaceChildren();
}
const say = (rank, part, text) => { document.querySelector(`#node${rank} .${part}`).textContent = text; };
const mark = (rank, state, words) => { $(`node${rank}`).setAttribute("class", state); say(rank, "state", words); };

/* A message leaves its rank, waits at two thirds of the way, and goes on when the other rank takes it. */
const moves = new Map();
const between = (from, to) => { if (!moves.has(`${from} ${to}`)) moves.set(`${from} ${to}`, { dots: [], early: 0 }); return moves.get(`${from} ${to}`); };
function leave(from, to, bytes) {
    const [x, y] = place(from), [x2, y2] = place(to), at = (part) => `translate(${x + (x2 - x) * part}px,${y + (y2 - y) * part}px)`, way = between(from, to);
    if (way.early > 0) { way.early--; return; } // the other worker has told first that it has it
    const dot = make("g", {}), radius = Math.min(13, 4 + Math.sqrt(bytes) / 110);
    way.dots.push({ dot, at });
    if (document.hidden || $("moves").childElementCount > 80) return;
    dot.append(make("circle", { class: "move", r: radius }));
    if (bytes >= 1e5 || pace !== "fast") dot.append(make("text", { class: "size", y: -radius - 4 }, size(bytes)));
    $("moves").append(dot);
    dot.animate([{ transform: at(0.25) }, { transform: at(0.6) }], { duration: still.matches ? 0 : 350, fill: "forwards", easing: "ease-out" });
}
function take(from, to) {
    const way = between(from, to), first = way.dots.shift();
    if (!first) way.early++;
    else first.dot.animate([{ transform: first.at(0.6) }, { transform: first.at(0.9) }], { duration: still.matches ? 0 : 250, fill: "forwards" }).onfinish = () => first.dot.remove();
}

/* ---- the loss by step: a line for each rank ---- */
function drawChart() {
    const all = ranks.flatMap((rank) => rank.losses), steps = Math.max(10, ...ranks.map((rank) => rank.losses.length));
    const top = Math.min(10, Math.max(2.5, ...all.filter(Number.isFinite))), X = (i) => 56 + i / (steps - 1) * 628, Y = (v) => 130 - Math.min(Number.isFinite(v) ? v : top, top) / top * 116;
    const parts = [0, top / 2, top].flatMap((v) => [make("line", { class: "grid", x1: 56, x2: 684, y1: Y(v), y2: Y(v) }), make("text", { class: "m", x: 48, y: Y(v) + 5, "text-anchor": "end" }, v.toFixed(1))]);
    parts.push(make("text", { class: "m", x: 56, y: 154 }, "loss of each rank's own rows, by step"), make("text", { class: "m", x: 684, y: 154, "text-anchor": "end" }, `${all.length ? ranks[0].losses.length : 0} steps`));
    ranks.forEach((rank, r) => rank.losses.length > 0 && parts.push(make("path", {
        class: "curve", style: `stroke: var(--rank-${r})`, d: rank.losses.map((v, i) => `${i ? "L" : "M"}${X(i).toFixed(1)},${Y(v).toFixed(1)}`).join("") })));
    $("chart").replaceChildren(...parts);
}

/* ---- what the ranks tell ---- */
function print(rank, line, fd) {
    const at = Object.assign(document.createElement("span"), { textContent: line, className: fd === 2 ? "err" : "" });
    at.style.borderColor = `var(--rank-${rank})`;
    $("said").append(at);
    $("said").scrollTop = $("said").scrollHeight;
}
/* A rank ends; its connections close. The others learn the reason, if it had one. */
function lose(r, how, line, reason = "") {
    end(r);
    mark(r, "gone", how);
    if (line) print(r, line, 2);
    ranks.forEach((other) => other.over || other.worker.postMessage({ gone: r, reason }));
    finish();
}
function end(r) {
    ranks[r].worker.terminate();
    ranks[r].over = true;
}
const same = (step) => new Set(ranks.map((rank) => rank.hashes[step])).size === 1;
function hear(r, told) {
    const rank = ranks[r];
    if (told.to !== undefined) {
        rank.sent += told.count;
        say(r, "sent", size(rank.sent));
        leave(r, told.to, told.count);
        $("now").textContent = `rank ${r} sends ${size(told.count)} to rank ${told.to}: ${told.call}`;
    } else if (told.held !== undefined) {
        rank.held = true;
        mark(r, "held", `has one from rank ${told.held}`);
        $("next").disabled = pace !== "step";
    } else if (told.from !== undefined) {
        rank.taken++;
        if (rank.held) mark(r, "works", `step ${rank.hashes.length}`);
        rank.held = false;
        take(told.from, r);
    } else if (told.step !== undefined) {
        rank.hashes[told.step] = told.hash;
        if (told.step > 0) rank.losses.push(told.loss);
        say(r, "loss", told.step > 0 ? told.loss.toFixed(3) : "");
        mark(r, "works", told.step > 0 ? `step ${told.step}` : "ready");
        const step = Math.min(...ranks.map((other) => other.hashes.length)) - 1, agree = step < 0 || same(step);
        ranks.forEach((other, i) => {
            if (step >= 0 && n > 1) $(`node${i}`).querySelector(".print").setAttribute("class", `mono print ${agree ? "same" : "other"}`);
            if (other.hashes.length) say(i, "print", `${n > 1 && step >= 0 ? agree ? "= " : "≠ " : ""}${other.hashes.at(-1)}`);
        });
        drawChart();
    } else if (told.text !== undefined) {
        for (const line of told.text.trimEnd().split("\n")) print(r, line, told.fd);
        rank.reason = /fatal: (.*)/.exec(told.text)?.[1] ?? rank.reason;
    } else if (told.file !== undefined) {
        rank.file = told;
    } else if (told.status !== undefined) {
        if (told.status !== 0) return lose(r, "ended by an error", "", rank.reason);
        end(r);
        mark(r, "ended", "done");
        finish();
    }
}

/* ---- at the end: what did the hashes do, and are the bits the native program's? ---- */
function verdict(text, className, element = "p") { $("bits").append(Object.assign(document.createElement(element), { className: className ?? "", textContent: text })); }
async function sha256(data) { // "" where a browser has none: at an address without https
    const digest = await globalThis.crypto?.subtle?.digest("SHA-256", data);
    return digest ? Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("") : "";
}
async function finish() {
    if (runs()) return;
    clearInterval(ticking);
    const guessed = $("guesses").querySelector(`[data-is=${guess}]`);
    URL.revokeObjectURL(source);
    const seconds = (performance.now() - began) / 1000, file = ranks.find((rank) => rank.file)?.file, sum = file && await sha256(await file.data.arrayBuffer());
    const found = ended ?? (ranks.some((rank) => rank.reason) ? "error" : same(ranks[0].hashes.length - 1) ? "equal" : "differ");
    const line = ended ? WHY.get(ended) : `${found === guess ? "✓ As you said." : `You said: ${guessed.textContent}.`} ${n === 1 && found === "equal" ? "One rank, one hash." : WHY.get(found)}`;
    $("bits").replaceChildren();
    verdict($("now").textContent = line, found === guess ? "ok" : "warn");
    if (!ended && n > 1) verdict(WHY.get(program === "02a" ? "spawn" : struck.size === 0 ? "whole" : struck.size === 1 ? LINES[[...struck][0]] : "") ?? "");
    if (file) {
        const known = native[program]?.[`${n} ${setting().lr} ${setting().batch}`];
        if (!sum) verdict("This browser computes no SHA-256 at an address without https: keep the file, and compare it yourself.", "warn");
        else if (sum === known) verdict("✓ The file is the native program's, byte for byte.", "ok");
        else if (struck.size) verdict("The file is not that of the whole program.");
        else verdict(known ? "✕ The native program writes other bits." : "Natively each rank writes this file: the last one wins, so there is no hash to compare.", known ? "bad" : "");
        verdict(sum, "", "code");
        $("bits").append(Object.assign(document.createElement("a"), { href: URL.createObjectURL(file.data), download: "cnn_digits.safetensors", textContent: `Keep the file (${size(file.data.size)})` }));
        const sent = ranks.reduce((all, rank) => all + rank.sent, 0), rows = ranks.reduce((all, rank) => all + rank.losses.length, 0) * setting().batch;
        verdict(`${(rows / seconds).toFixed(0)} samples/s, with the evaluations.${sent ? ` ${size(sent)} went between the ranks. A worker has one thread, so nothing hides communication here.` : ""}`);
    }
    showCommand();
    [guess, root.dataset.done] = [null, `${found} ${sum ?? ""}`];
    show();
}
function showCommand() {
    const { file } = data[program], lines = [...struck].map((line) => `/${LINES[line]}(/d`).join("; ");
    verdict("The same natively; FMA=0 leaves out an instruction that rounds a product and a sum once, not twice, since browsers have none:");
    verdict(struck.size ? `make FMA=0 && tools/break.sh ${program} '${lines}' ${program === "01" ? "" : `${n} `}${options()}`
        : `make FMA=0 && ${file.replace(".c", "")} ${program === "01" ? "" : `--nproc ${n} `}${options()} && sha256sum checkpoints/cnn_digits.safetensors`, "", "code");
}

/* ---- starting ---- */
async function load() {
    await new Promise((done, fail) => document.head.append(Object.assign(document.createElement("script"), { src: ranksScript, onload: done, onerror: () => fail(new Error(
        "The programs are not built here: ./setup.sh --play && make play does that, where the compiler clang is."))})));
    const packed = Uint8Array.from(atob(RANKS), (letter) => letter.charCodeAt(0));
    return WebAssembly.compile(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer());
}
async function start() {
    delete root.dataset.done;
    try { module ??= await load(); } catch (error) { $("now").textContent = error.message; return; }
    source = URL.createObjectURL(new Blob([`(${rankMain})()`], { type: "text/javascript" }));
    const ports = Array.from({ length: n }, () => Array(n).fill(null));
    for (let a = 0; a < n; a++)
        for (let b = a + 1; b < n; b++) ({ port1: ports[a][b], port2: ports[b][a] } = new MessageChannel());
    [ended, began] = [null, performance.now()];
    moves.clear();
    drawRing();
    $("said").replaceChildren();
    $("bits").replaceChildren();
    $("now").textContent = "The ranks start.";
    ticking = setInterval(() => { $("time").textContent = `${((performance.now() - began) / 1000).toFixed(0)} s`; }, 250);
    ranks = ports.map((own, r) => {
        const worker = new Worker(source);
        worker.onmessage = (event) => ranks[r].over || hear(r, event.data);
        worker.onerror = (error) => lose(r, "failed", error.message, error.message);
        worker.postMessage({ module, rank: r, args: [program, ...(program === "01" ? [] : ["--nproc", `${n}`]), ...options().split(" ")], struck: [...struck], ports: own, pace: PACES[pace] }, own.filter(Boolean));
        return { worker, losses: [], hashes: [], sent: 0, taken: 0, over: false };
    });
    drawChart();
    show();
}
function stop() {
    ended ??= "stopped";
    ranks.forEach((rank, r) => { if (!rank.over) { end(r); mark(r, "gone", "stopped"); } });
    finish();
}
const tellAll = (what) => ranks.forEach((rank) => rank.over || rank.worker.postMessage(what));
const next = () => { $("next").disabled = true; tellAll({ go: true }); };

/* ---- the controls; the address keeps what is chosen ---- */
const press = (id, chosen) => [...$(id).children].forEach((button) => button.setAttribute("aria-pressed", button.dataset.is === chosen));
const choices = (id, choose) => [...$(id).children].forEach((button) => { button.onclick = () => { choose(button.dataset.is); show(); }; });
function show() {
    if (program === "01") n = 1;
    const { lr, batch } = setting(), busy = runs(), lines = data[program].lines;
    for (const id of ["n", "lr", "batch"]) $(id).disabled = busy || (id === "n" && program === "01");
    $("n").value = n;
    $("nis").textContent = n; $("lris").textContent = lr; $("batchis").textContent = n > 1 ? `${batch} × ${n}` : batch;
    press("programs", program); press("guesses", guess); press("paces", pace);
    $("go").textContent = busy ? "Stop" : "Start";
    $("go").disabled = !busy && guess === null;
    $("next").hidden = pace !== "step";
    $("file").textContent = data[program].file.split("/").at(-1);
    $("lines").replaceChildren(...lines.map(([text, line]) => {
        const shown = Object.assign(document.createElement(line < 0 ? "span" : "button"), { textContent: text });
        if (line >= 0) {
            shown.setAttribute("aria-pressed", struck.has(line));
            shown.disabled = busy;
            shown.onclick = () => { struck.has(line) ? struck.delete(line) : struck.add(line); clear(); $("lines").children[lines.findIndex((one) => one[1] === line)].focus(); };
        }
        return shown;
    }));
    history.replaceState(null, "", `#${asked.has("one") ? "one&" : ""}program=${program}&n=${n}&lr=${lr}&batch=${batch}&pace=${pace}&struck=${[...struck].map((line) => LINES[line])}`);
}
/* Another setting: what was drawn belongs to the one before. */
function clear() {
    struck = new Set([...struck].filter((line) => data[program].lines.some((one) => one[1] === line)));
    ranks = [];
    show();
    drawRing();
    drawChart();
    $("said").replaceChildren();
    $("bits").replaceChildren();
    $("now").textContent = "Will the ranks' weights, and so their hashes, be equal at the end? Say it, then press Start.";
    showCommand();
}
choices("programs", (name) => { if (!runs()) { program = name; clear(); } });
choices("guesses", (name) => { if (!runs()) guess = name; });
choices("paces", (name) => { pace = name; tellAll({ pace: PACES[pace], go: true }); });
document.querySelectorAll(".kill").forEach((kill, r) => {
    kill.onclick = () => { if (ranks[r] && !ranks[r].over) { ended = "killed"; lose(r, "killed", `rank ${r} was killed`); } };
    kill.onkeydown = (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); kill.onclick(); } };
});
root.classList.toggle("one", asked.has("one")); // in a frame of another page
for (const [id, values] of [["lr", RATES], ["batch", BATCHES]]) if (values.includes(+asked.get(id))) $(id).value = values.indexOf(+asked.get(id));
if (asked.get("n") >= 1 && asked.get("n") <= 4) n = +asked.get("n");
if (data[asked.get("program")]) program = asked.get("program");
if (PACES[asked.get("pace")] !== undefined) pace = asked.get("pace");
for (const name of (asked.get("struck") ?? "").split(",")) if (LINES.includes(name)) struck.add(LINES.indexOf(name));
for (const id of ["n", "lr", "batch"]) $(id).oninput = () => { n = +$("n").value; clear(); };
$("go").onclick = () => runs() ? stop() : start();
$("next").onclick = next;
addEventListener("keydown", (e) => { if (e.key === "ArrowRight" && pace === "step" && runs() && e.target.tagName !== "INPUT") { e.preventDefault(); next(); } });
clear();
