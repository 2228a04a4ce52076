/* The picture of a run that goes wrong: replays the lines of real runs (recover.html has them). */
"use strict";
const STEPS = 30, TICK = 90; // milliseconds between two events when playing
const NAMES = Object.keys(data.runs);
let name = NAMES[0], at = 0, playing = 0, events, attempts;

/* Which steps each attempt made, where it began, and which of them were made again later. */
function replay() {
    events = data.runs[name].events.map(([t, line, kind, ...rest]) => ({ t, line, kind, rest }));
    attempts = [];
    for (const e of events) {
        if (e.kind === "start" && (!attempts.length || attempts.at(-1).over !== undefined)) attempts.push({ from: e.t, steps: [], resumed: 0 });
        const now = attempts.at(-1);
        if (e.kind === "resume") now.resumed = e.rest[0];
        else if (e.kind === "step") now.steps.push({ t: e.t, step: e.rest[0], loss: e.rest[1] });
        else if (e.kind === "noticed") now.noticed = e.t;
        else if (e.kind === "restart" || e.kind === "end") now.over = e.t;
    }
    // The fault is one of the first attempt.
    attempts[0].dead = [...data.runs[name].inject.matchAll(/:(\d):/g)].map((found) => +found[1]).sort();
    attempts[0].noticed ??= attempts[0].over;
    attempts.forEach((attempt, i) => {
        const next = attempts[i + 1];
        for (const s of attempt.steps) s.lost = next !== undefined && s.step > next.resumed;
    });
}

const f = (x) => +x.toFixed(1);
const words = (x, y, text, more = "") => `<text x="${f(x)}" y="${f(y)}" ${more}>${text}</text>`;

/* Where things stand, from top to bottom; a slide has less room. */
const TALL = { steps: 232, climb: 190, ranks: 262, lane: 38, bar: 26, fall: 88, axis: 470, words: 505 };
const LOW = { steps: 104, climb: 76, ranks: 118, lane: 24, bar: 21, fall: 32, axis: 228, words: 261 };

function draw() {
    const phone = small.matches && !onSlide(), w = phone ? 400 : 720, left = phone ? 34 : 44, right = 10, size = phone ? 12 : 14, end = events.at(-1).t * 1.01;
    const h = onSlide() ? LOW : TALL, most = Math.max(...attempts.flatMap((a) => a.steps).map((s) => s.loss));
    const x = (t) => left + (w - left - right) * t / end, y = (step) => h.steps - h.climb * step / STEPS, lossY = (loss) => h.axis - 4 - h.fall * loss / most;
    const now = events[at].t;
    let out = words(left, 20, "steps", `class="m" font-size="${size}"`);
    for (const step of [0, 8, 16, 24, 30]) out += `<line class="grid" x1="${left}" y1="${f(y(step))}" x2="${w - right}" y2="${f(y(step))}"/>` + words(left - 6, y(step) + 4, step, `class="m" text-anchor="end" font-size="${size - 2}"`);
    attempts.forEach((attempt, i) => {
        const points = (steps) => steps.map((s) => `${f(x(s.t))},${f(y(s.step))}`).join(" ");
        const kept = attempt.steps.filter((s) => !s.lost), lost = attempt.steps.filter((s) => s.lost);
        out += `<polyline class="way" points="${points(kept)}"/><polyline class="lost" points="${points([...kept.slice(-1), ...lost])}"/>`;
        if (i > 0 && attempt.steps.length) out += `<line class="back" x1="${f(x(attempts[i - 1].over))}" y1="${f(y(attempt.resumed))}" x2="${f(x(attempt.steps[0].t))}" y2="${f(y(attempt.resumed))}"/>`;
        if (attempt.noticed !== undefined) {
            const last = attempt.steps.at(-1), cx = x(last.t) + 4, cy = y(last.step);
            out += `<path class="cross" d="M${f(cx - 6)} ${f(cy - 6)}l12 12m0 -12l-12 12"/>` + words(cx - 10, cy - 12, `rank ${attempt.dead.join(" and ")}`, `class="bad" text-anchor="end" font-size="${size - 1}"`);
        }
        for (const rank of [0, 1]) {
            const top = h.ranks + h.lane * rank, until = attempt.dead?.includes(rank) ? (attempt.steps.at(-1)?.t ?? attempt.noticed) : attempt.over ?? end;
            out += `<rect class="r${rank}" x="${f(x(attempt.from))}" y="${top}" width="${f(Math.max(1, x(until) - x(attempt.from)))}" height="${h.bar}" rx="4"/>`;
            if (x(until) - x(attempt.from) > 76) out += words(x(attempt.from) + 8, top + h.bar - 7, `attempt ${i}`, `class="o${rank}" font-size="${size - 1}"`);
        }
        for (const s of attempt.steps) out += `<circle class="loss${s.lost ? " lost-step" : ""}" r="3" cx="${f(x(s.t))}" cy="${f(lossY(s.loss))}"/>`;
    });
    for (const rank of [0, 1]) out += words(left - 6, h.ranks + h.bar - 7 + h.lane * rank, rank, `text-anchor="end" font-weight="700" font-size="${size}"`);
    for (const e of events) if (e.kind === "snapshot") out += `<circle class="snapshot" r="5.5" cx="${f(x(e.t))}" cy="${f(y(e.rest[0]))}"/>`;
    out += words(left, h.axis - h.fall - 18, "loss of each step", `class="m" font-size="${size}"`) + `<line class="axis" x1="${left}" y1="${h.axis}" x2="${w - right}" y2="${h.axis}"/>`;
    const unit = [100, 200, 500, 1000, 2000].find((u) => end / u <= (phone ? 5 : 9)) ?? 5000;
    for (let t = 0; t <= end; t += unit) out += words(x(t), h.axis + 17, (t / 1000).toFixed(1), `class="m" text-anchor="middle" font-size="${size - 2}"`);
    out += words(w - right, h.words, "seconds", `class="m" text-anchor="end" font-size="${size - 2}"`);
    out += `<rect class="veil" x="${f(x(now) + 1)}" y="28" width="${f(Math.max(0, w - right - x(now)))}" height="${h.axis - 26}"/><line class="cursor" x1="${f(x(now))}" y1="28" x2="${f(x(now))}" y2="${h.axis + 2}"/>`;
    $("picture").innerHTML = `<svg viewBox="0 0 ${w} ${h.words + 5}" role="img" aria-label="Steps over time, in ${attempts.length} attempts; after ${(now / 1000).toFixed(1)} seconds.">${out}</svg>`;
}

function sentence(e) {
    const [a, b] = e.rest;
    switch (e.kind) {
    case "start": return `Rank ${a} starts.`;
    case "step": return `Step ${a} of ${STEPS}, loss ${b.toFixed(3)}${attempts.some((x) => x.steps.some((s) => s.t === e.t && s.lost)) ? ": it will be lost" : ""}.`;
    case "snapshot": return `The snapshot of step ${a} is on disk.`;
    case "noticed": return `Rank ${1 - a} notices that rank ${a} ${e.line.includes("missing") ? "does not take part any more: its messages are missing" : "is gone: its connection is closed"}.`;
    case "restart": return "The launcher ends all ranks, and starts them again.";
    case "resume": return `Rank 0 loads the snapshot of step ${a} and sends it to rank 1.`;
    default: return "The last step is done, and the model is on disk: the same bytes as without any fault.";
    }
}

function show() {
    const e = events[at];
    draw();
    $("now").textContent = sentence(e);
    $("log").replaceChildren(...events.slice(0, at + 1).map((event, i) => {
        const line = document.createElement("span");
        line.textContent = event.line;
        line.className = `${i === at ? "on " : ""}${["noticed", "restart"].includes(event.kind) ? "fault" : ["snapshot", "resume", "end"].includes(event.kind) ? "good" : ""}`;
        return line;
    }));
    $("log").scrollTop = $("log").scrollHeight;
    $("at").value = at;
    $("atis").textContent = `${(e.t / 1000).toFixed(2)} s`;
    $("at").setAttribute("aria-valuetext", sentence(e));
    $("previous").disabled = at === 0;
    $("next").disabled = at === events.length - 1;
    $("play").textContent = playing ? "Pause" : at === events.length - 1 ? "Again" : "Play";
    const over = at === events.length - 1;
    $("bytes").className = `values${over ? " same" : ""}`;
    $("bytes").textContent = over ? `✓ sha256 ${data.sha256.slice(0, 16)}..., as that of the run without a fault` : "At the end the files' bytes are compared.";
}

function choose(run) {
    clearTimeout(playing);
    playing = at = 0;
    name = run;
    replay();
    $("at").max = events.length - 1;
    for (const b of document.querySelectorAll("[data-run]")) b.setAttribute("aria-pressed", b.dataset.run === name);
    $("inject").textContent = `--inject ${data.runs[name].inject}`;
    const lost = attempts.flatMap((a) => a.steps).filter((s) => s.lost).length;
    const pauses = attempts.slice(0, -1).map((a, i) => [a.noticed - a.steps.at(-1).t, attempts[i + 1].steps[0].t - a.noticed]);
    const seconds = (list) => list.map((t) => `${(t / 1000).toFixed(2)} s`).join(", ");
    $("cost").innerHTML = `<tr><td>steps made twice<td>${lost}<tr><td>noticed, after the last step<td>${seconds(pauses.map((p) => p[0]))}<tr><td>from there to the next step<td>${seconds(pauses.map((p) => p[1]))}`;
    show();
}
function go(to) {
    at = Math.max(0, Math.min(events.length - 1, to));
    show();
}
function pause() {
    clearTimeout(playing);
    playing = 0;
    show();
}
function tick() {
    if (at === events.length - 1) return pause();
    go(at + 1);
    playing = setTimeout(tick, still.matches ? 5 * TICK : Math.min(1500, Math.max(TICK, 2 * (events[Math.min(at + 1, events.length - 1)].t - events[at].t))));
}
function play() {
    if (playing) return pause();
    if (at === events.length - 1) at = 0;
    playing = 1;
    tick();
}
const step = (by) => { pause(); go(at + by); };

$("previous").onclick = () => step(-1);
$("next").onclick = () => step(1);
$("play").onclick = play;
$("at").oninput = () => { clearTimeout(playing); playing = 0; go(+$("at").value); };
document.querySelector("[aria-label=Fault]").onclick = (e) => { const b = e.target.closest("[data-run]"); if (b) choose(b.dataset.run); };
document.onkeydown = (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const slider = e.target.matches("input"), button = e.target.matches("button");
    const act = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => step(-events.length), End: () => step(events.length) }[e.key];
    if (act && !slider) act();
    else if (e.key === " " && !slider && !button) play();
    else if (NAMES[+e.key - 1]) choose(NAMES[+e.key - 1]);
    else return;
    e.preventDefault();
};
small.onchange = show;
if (slideState !== undefined) onresize = show;
$("controls").hidden = $("keys").hidden = false;

/* recover.html#run=both&at=40 is a link to a moment, for slides and texts. */
function open_() {
    const wanted = linked();
    choose(NAMES.includes(wanted.get("run")) ? wanted.get("run") : NAMES[0]);
    go(+wanted.get("at") || 0);
}
window.onhashchange = open_;
open_();
