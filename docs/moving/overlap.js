/* The picture of overlap: a step's two lanes, computed from recorded times of the layers (overlap.html has them). */
"use strict";
const MIB = 1024 * 1024, FIRST_BUCKET = MIB, LATENCY_US = 50;
let cap = 1, rate = 3, n = 2; // MiB, Gbit/s, ranks

/* The buckets as common/comm/ddp.c plans them: from the last parameter to the first. */
function plan(capMiB) {
    const limit = capMiB * MIB, buckets = [];
    let bucket = null;
    for (const [name, bytes] of data.parameters.slice().reverse()) {
        if (!bucket) buckets.push(bucket = { parameters: [], bytes: 0 });
        bucket.parameters.push(name);
        bucket.bytes += bytes;
        if (bucket.bytes >= (buckets.length === 1 ? Math.min(limit, FIRST_BUCKET) : limit)) bucket = null;
    }
    return buckets;
}

const travel = (bytes, gbit, ranks) => LATENCY_US + 2 * (ranks - 1) / ranks * bytes * 8 / (gbit * 1e3); // microseconds

/* One step: spans of the computation, when each bucket is complete, leaves and has arrived, and what is exposed. */
function step(capMiB, gbit, ranks) {
    const spans = [], ready = {};
    let t = 0;
    const add = (kind, name, us) => { spans.push({ kind, name, from: t, to: t += us }); };
    for (const layer of data.layers) add("forward", layer.name, layer.forward_us);
    for (const layer of data.layers.slice().reverse()) {
        add("backward", layer.name, layer.backward_us);
        ready[layer.name] = t;
    }
    const computed = t, buckets = plan(capMiB);
    let free = 0;
    for (const bucket of buckets) {
        bucket.complete = Math.max(...bucket.parameters.map((name) => ready[name.split(".")[0]]));
        bucket.from = Math.max(bucket.complete, free);
        free = bucket.to = bucket.from + travel(bucket.bytes, gbit, ranks);
    }
    const exposed = Math.max(0, free - computed);
    if (exposed > 0) add("wait", "wait", exposed);
    add("optimizer", "step", data.optimizer_us);
    const whole = buckets.reduce((sum, bucket) => sum + bucket.bytes, 0);
    return { spans, buckets, computed, exposed, total: t, blocking: computed + travel(whole, gbit, ranks) + data.optimizer_us };
}

const f = (x) => +x.toFixed(1);
const ms = (us) => (us / 1000).toFixed(1);
const rect = (x, y, w, h, more) => `<rect x="${f(x)}" y="${f(y)}" width="${f(Math.max(w, 0.5))}" height="${f(h)}" rx="3" ${more}/>`;
const words = (x, y, text, more = "") => `<text x="${f(x)}" y="${f(y)}" ${more}>${text}</text>`;

function drawLanes(s) {
    const wide = onSlide() || !small.matches, width = wide ? 720 : 400, left = wide ? 84 : 64, right = 8, size = wide ? 14 : 12, axis = onSlide() ? size : size - 2;
    const end = Math.max(s.total, s.blocking) * 1.02, x = (us) => left + (width - left - right) * us / end;
    let out = '<defs><pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0V8"/></pattern></defs>';
    for (const [text, y] of [["computes", 42], ["network", 102], ["blocking", 162]]) out += words(0, y, text, `class="m" font-size="${size}"`);
    const beside = { 13: 0, 128: 0 }; // where the last name above or below the bars ends
    const name = (text, from, w, y) => { // of a bar that is too narrow for it
        const half = text.length * size * 0.31, middle = Math.min(width - half, Math.max(left + half, from + w / 2));
        if (w < 2 || middle - half < beside[y]) return;
        beside[y] = middle + half + 4;
        out += words(middle, y, text, `text-anchor="middle" font-size="${size - 1}" class="m"`);
    };
    for (const span of s.spans) {
        const w = x(span.to) - x(span.from);
        out += rect(x(span.from), 18, w, 38, `class="${span.kind}"`);
        if (w <= span.name.length * size * 0.62) name(span.name, x(span.from), w, 13);
        else out += words(x(span.from) + w / 2, 42, span.name, `text-anchor="middle" font-size="${size - 1}" class="${span.kind === "wait" ? "m" : "on-" + span.kind}"`);
    }
    s.buckets.forEach((bucket, i) => {
        const w = x(bucket.to) - x(bucket.from), shade = i % 5;
        out += `<line class="leaves" x1="${f(x(bucket.complete))}" y1="56" x2="${f(x(bucket.from))}" y2="80"/>`;
        out += rect(x(bucket.from), 80, w, 34, `class="b${shade}"`);
        if (w <= 14) name(String(i), x(bucket.from), w, 128);
        else out += words(x(bucket.from) + w / 2, 102, i, `text-anchor="middle" font-weight="700" font-size="${size}" class="o${shade}"`);
    });
    const sent = s.blocking - data.optimizer_us;
    out += rect(x(0), 140, x(s.computed) - x(0), 34, 'fill="none" class="axis"') + rect(x(s.computed), 140, x(sent) - x(s.computed), 34, 'class="wait"') +
        rect(x(sent), 140, x(s.blocking) - x(sent), 34, 'fill="none" class="axis"');
    out += words((x(0) + x(s.computed)) / 2, 162, wide ? "the same, sent afterwards" : "computes", `text-anchor="middle" font-size="${size - 1}" class="m"`);
    const unit = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((u) => end / 1000 / u <= 9);
    for (let t = 0; t <= end / 1000; t += unit) out += `<line class="grid" x1="${f(x(1000 * t))}" y1="186" x2="${f(x(1000 * t))}" y2="192"/>` + words(x(1000 * t), 207, t, `text-anchor="middle" font-size="${axis}" class="m"`);
    out += words(width - right, 224, "milliseconds", `text-anchor="end" font-size="${axis}" class="m"`);
    $("lanes").innerHTML = `<svg viewBox="0 0 ${width} 230" role="img" aria-label="A step of ${ms(s.total)} ms, of which ${ms(s.exposed)} ms are exposed; with one all-reduce after the backward pass it takes ${ms(s.blocking)} ms.">${out}</svg>`;
}

/* The measured points nearest to this cap, and the formula's lines through all rates. */
function drawPlot() {
    const caps = [...new Set(data.measured.map((m) => m.cap))], near = caps.reduce((a, b) => Math.abs(Math.log(b / cap)) < Math.abs(Math.log(a / cap)) ? b : a);
    const points = data.measured.filter((m) => m.cap === near), rates = Array.from({ length: 60 }, (_, i) => 0.3 * 100 ** (i / 59));
    const lines = { blocking: rates.map((r) => [r, step(cap, r, 2).blocking / 1000]), buckets: rates.map((r) => [r, step(cap, r, 2).total / 1000]) };
    const top = Math.max(...lines.blocking.map((p) => p[1]), ...points.map((p) => p.ms[0])) * 1.05;
    const x = (r) => 46 + 390 * Math.log(r / 0.3) / Math.log(100), y = (v) => 190 - 164 * v / top;
    let out = `<line class="axis" x1="46" y1="190" x2="440" y2="190"/><line class="axis" x1="46" y1="22" x2="46" y2="190"/>`;
    for (const r of [0.3, 1, 3, 10, 30]) out += words(x(r), 206, r, 'text-anchor="middle" font-size="11" class="m"');
    const unit = [10, 20, 50, 100, 200, 500].find((u) => top / u <= 6) ?? 1000;
    for (let v = unit; v < top; v += unit) out += `<line class="grid" x1="46" y1="${f(y(v))}" x2="440" y2="${f(y(v))}"/>` + words(40, y(v) + 4, v, 'text-anchor="end" font-size="11" class="m"');
    for (const [name, line] of Object.entries(lines)) out += `<polyline class="model ${name}" points="${line.map(([r, v]) => `${f(x(r))},${f(y(v))}`).join(" ")}"/>`;
    for (const p of points) out += `<circle class="point blocking" r="4.5" cx="${f(x(p.rate))}" cy="${f(y(p.ms[0]))}"/><circle class="point" r="4.5" cx="${f(x(p.rate))}" cy="${f(y(p.ms[2]))}"/>`;
    out += `<line class="leaves" x1="${f(x(rate))}" y1="22" x2="${f(x(rate))}" y2="190"/>`;
    out += words(440, 226, `Gbit/s; points measured with a cap of ${near} MiB`, 'text-anchor="end" font-size="11" class="m"') + words(4, 12, "ms a step", 'font-size="11" class="m"');
    $("plot").innerHTML = `<svg viewBox="0 0 450 234" role="img" aria-label="Milliseconds of a step by the rate of the network, measured and by formula.">${out}</svg>`;
}

function draw() {
    const s = step(cap, rate, n), saved = s.blocking - s.total;
    $("exposed").textContent = `exposed ${ms(s.exposed)} of ${ms(s.total)} ms`;
    $("now").textContent = `${s.buckets.length} bucket${s.buckets.length > 1 ? "s" : ""}: ${saved > 50 ? `${ms(saved)} ms less than with one all-reduce after the backward pass` : "no gain over one all-reduce after the backward pass"}.`;
    drawLanes(s);
    drawPlot();
    $("buckets").innerHTML = s.buckets.map((b, i) => `<tr><td>${i}: ${b.parameters.at(-1)}${b.parameters.length > 1 ? ` to ${b.parameters[0]}` : ""}<td>${(b.bytes / MIB).toFixed(3)}<td>${ms(b.complete)} ms<td>${ms(b.to - b.from)} ms`).join("");
    $("total").textContent = `${(s.buckets.reduce((sum, b) => sum + b.bytes, 0) / MIB).toFixed(2)} MiB in all`;
    $("capis").textContent = `${cap < 1 ? +cap.toPrecision(2) : +cap.toPrecision(3)} MiB`;
    $("rateis").textContent = `${+rate.toPrecision(2)} Gbit/s`;
    $("nis").textContent = `n = ${n}`;
}
function set(newCap, newRate, ranks) {
    cap = Math.max(0.01, Math.min(100, newCap));
    rate = Math.max(0.3, Math.min(30, newRate));
    n = Math.max(2, Math.min(64, ranks));
    $("cap").value = 100 * Math.log10(cap);
    $("rate").value = 100 * Math.log10(rate);
    $("n").value = n;
    draw();
}

$("cap").oninput = () => { cap = 10 ** ($("cap").value / 100); draw(); };
$("rate").oninput = () => { rate = 10 ** ($("rate").value / 100); draw(); };
$("n").oninput = () => { n = +$("n").value; draw(); };
document.onkeydown = (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey) return;
    const factor = e.shiftKey ? 1 / 1.5 : 1.5;
    if (e.key.toLowerCase() === "b") set(cap * factor, rate, n);
    else if (e.key.toLowerCase() === "n") set(cap, rate * factor, n);
    else return;
    e.preventDefault();
};
small.onchange = draw;
if (slideState !== undefined) onresize = draw;
$("controls").hidden = $("keys").hidden = false;

/* overlap.html#cap=1&rate=3&n=2 is a link to a state, for slides and texts. */
function show() {
    const wanted = linked();
    set(+wanted.get("cap") || 1, +wanted.get("rate") || 3, +wanted.get("n") || 2);
}
window.onhashchange = show;
show();
