"""The model of our start-up and of a step's all-reduce on many ranks, for bench/many_ranks.py: fitted to what was
measured on one machine, and drawn out to 10,000 ranks. Beyond the points it is a calculation, not a measurement.

    a rank        R(n) = p + q k(n)                 seconds of a core: its process, and k(n) = 2 log2 n + 2 connections
    the launcher  L(n) = l + s n + r n k(n)         its own process, a fork and the answers of its store for each rank, and for
                                                    each connection, since ranks read their neighbors' addresses
    start-up      (n R(n) + L(n)) / cores           all ranks on this machine's cores
                  R(n) + L(n)                       a core for each rank: only the launcher and its store remain serial
    all-reduce    T(n) = 2 (n - 1) (alpha + bytes / n beta)     the ring, a core for each rank; where its blocks are short,
                         log2(n) (alpha + bytes beta)           doubling (common/comm/tcp/backend_tcp.c)
                  n T(n) / cores                    all ranks on this machine's cores

p, q, l, s and r are fitted to processor's time, alpha and beta to all-reduces of the step's bytes and of 64 KiB. No term is
below 0. The alpha of ranks that share cores has a change of process in it. The model knows no network: on a cluster each
message of the ring and each of the 2 log2 n + 2 handshakes takes the network's latency as well.
"""
import math

import report
from step_model import is_short

SHORT = 65536  # bytes, as in many_ranks.h
SHOWN = [1000, 10000]
MOST = 10000


def fit(points, terms):
    """points: (x, measured). The factors, none below 0, of the terms (functions of x) for which the sum of
    (model / measured - 1)^2 is least."""
    def solve(used):
        """Normal equations, by elimination. None if two terms cannot be told apart."""
        rows = [[term(x) / y for term in used] for x, y in points]
        matrix = [[sum(row[i] * row[j] for row in rows) for j in range(len(used))] + [sum(row[i] for row in rows)]
                  for i in range(len(used))]
        for i, row in enumerate(matrix):
            if abs(row[i]) < 1e-12 * max(1e-300, max(map(abs, row))):
                return None
            for other in matrix:
                if other is not row:
                    factor = other[i] / row[i]
                    other[:] = [a - factor * b for a, b in zip(other, row)]
        return [row[-1] / row[i] for i, row in enumerate(matrix)]

    def error(factors):
        return sum((sum(f * term(x) for f, term in zip(factors, terms)) / y - 1) ** 2 for x, y in points)

    candidates = []
    for mask in range(1, 2 ** len(terms)):
        used = [i for i in range(len(terms)) if mask >> i & 1]
        found = solve([terms[i] for i in used])
        if found is not None and min(found) >= 0:
            factors = [0.0] * len(terms)
            for i, value in zip(used, found):
                factors[i] = value
            candidates.append(factors)
    return min(candidates, key=error)


def num_connections(n):
    return 2 * math.log2(n) + 2


def messages(n, size):
    """(how many, bytes) a rank sends in an all-reduce."""
    if is_short(n, size):
        return math.log2(n), math.log2(n) * size
    return 2 * (n - 1), 2 * (n - 1) * size / n


class Model:
    def __init__(self, rows, size, cores):
        """rows: n -> the medians of ours."""
        self.size, self.cores = size, cores
        one = lambda n: 1  # noqa: E731
        self.p, self.q = fit([(n, row["rank_cpu"]) for n, row in rows.items()], [one, num_connections])
        self.l, self.s, self.r = fit([(n, row["launcher_cpu"]) for n, row in rows.items()],
                                     [one, lambda n: n, lambda n: n * num_connections(n)])
        points = [((n, bytes_), row[name]) for n, row in rows.items() for name, bytes_ in (("all_reduce", size), ("short", SHORT))]
        self.alpha, self.beta = fit(points, [lambda x: messages(*x)[0] * x[0] / cores, lambda x: messages(*x)[1] * x[0] / cores])

    def rank(self, n):
        return self.p + self.q * num_connections(n)

    def launcher(self, n):
        return self.l + self.s * n + self.r * n * num_connections(n)

    def start_here(self, n):
        return (n * self.rank(n) + self.launcher(n)) / self.cores

    def start(self, n):
        return self.rank(n) + self.launcher(n)

    def all_reduce(self, n, size=None):
        count, sent = messages(n, size or self.size)
        return count * self.alpha + sent * self.beta

    def all_reduce_here(self, n, size=None):
        return n * self.all_reduce(n, size) / self.cores


def print_errors(what, rows, name, here):
    print(f"\n{what}\nranks   measured, s   model, s   error")
    errors = []
    for n, row in rows.items():
        errors.append(here(n) / row[name] - 1)
        print(f"{n:5d} {row[name]:13.3g} {here(n):10.3g} {100 * errors[-1]:+6.0f}%")
    print(f"the model is off by {100 * math.sqrt(sum(e * e for e in errors) / len(errors)):.0f} % (root of the mean square)")


def show(found, cores, out):
    """found: (who, ranks) -> medians."""
    rows = {ranks: row for (who, ranks), row in found.items() if who == "ddprun"}
    if len(rows) < 2:
        print("\nNo model: it takes ours on two numbers of ranks.")
        return
    model = Model(rows, int(min(row["bytes"] for row in rows.values())), cores)
    print(f"\nThe model, with {cores} cores: a rank takes {1e3 * model.p:.3g} ms + {1e3 * model.q:.3g} ms a connection,\n"
          f"the launcher {1e3 * model.l:.3g} ms + {1e3 * model.s:.3g} ms a rank + {1e3 * model.r:.3g} ms for each of its "
          f"connections (processor's time),\na message {1e6 * model.alpha:.3g} us + {1e9 * model.beta:.3g} ns a byte.")
    print_errors("start-up", rows, "start", model.start_here)
    print_errors("the step's all-reduce", rows, "all_reduce", model.all_reduce_here)
    print_errors("an all-reduce of 64 KiB", rows, "short", lambda n: model.all_reduce_here(n, SHORT))
    print("\nby the model, s    start-up here   a core for each   all-reduce here   a core for each")
    for n in SHOWN:
        print(f"{n:8d} ranks {model.start_here(n):17.3g} {model.start(n):17.3g} {model.all_reduce_here(n):17.3g} "
              f"{model.all_reduce(n):17.3g}")
    draw(found, model, max(rows), out)


def draw(found, model, measured, out):
    names = list(dict.fromkeys(who for who, _ in found))
    points = "".join(f"${who} << END\n" + "".join(f"{ranks} {row['start']:.6g} {row['all_reduce']:.6g}\n"
                                                  for (one, ranks), row in found.items() if one == who) + "END\n"
                     for who in names)

    def panel(column, label, here, alone):
        line = "with lines lt 1"
        curves = [f"x <= {measured} ? {here[0]} : NaN {line} notitle", f"x >= {measured} ? {here[0]} : NaN {line} dt (8, 6) notitle",
                  f"{alone[0]} with lines lt 3 notitle"]
        curves += [f"${who} using 1:{column} with points lt {i + 1} ps 1 notitle" for i, who in enumerate(names)]
        ends = [(MOST, here[1](MOST), f"model of ddprun: {model.cores} cores", "accent"),
                (MOST, alone[1](MOST), "a core for each rank", "muted")]
        words = report.colours.labels(ends, 1.9, log=True)
        if column == 2:  # the names of the points, once: above the first of each
            first = {who: min(ranks for one, ranks in found if one == who) for who in names}
            words += "".join(f"set label '{who}' at {ranks},{found[who, ranks]['start']} center offset 0,1 textcolor rgb text\n"
                             for who, ranks in first.items())
        return f"set title '{label}'\nunset label\n{words}plot " + ", ".join(curves)

    for kind, terminal in (("png", "pngcairo font 'DejaVu Sans,10'"), ("svg", "svg font 'DejaVu Sans,13' background 'white'")):
        report.gnuplot(f"""{report.colours.style()}
set terminal {terminal} size 1100,460
set output '{out}.{kind}'
{points}set grid
set rmargin 27
set logscale xy
set xrange [2:{MOST}]
set samples 120
set xlabel 'ranks'
k(x) = 2 * log(x) / log(2) + 2
R(x) = {model.p} + {model.q} * k(x)
L(x) = {model.l} + {model.s} * x + {model.r} * x * k(x)
T(x) = 2 * (x - 1) * ({model.alpha} + {model.size} / x * {model.beta})
set multiplot layout 1,2
{panel(2, 'start-up, s (points: measured)', (f'(x * R(x) + L(x)) / {model.cores}', model.start_here), ('R(x) + L(x)', model.start))}
{panel(3, 'all-reduce of a step, s (points: as on the left)', (f'x * T(x) / {model.cores}', model.all_reduce_here), ('T(x)', model.all_reduce))}
""")
        print(f"{out}.{kind}")
