#!/usr/bin/env python3
"""Usage: summary.py [--failed | --slowest] TAP_DIR      Reports on the test files whose TAP lies in TAP_DIR.

Failed tests come first, each with its last 20 lines and the command that repeats its file; then flaky files, skipped tests,
and "N passed, N failed, N skipped". The exit status is 1 if anything failed. A file is flaky if it failed, and passed when
tests/again.sh ran it alone (into TAP_DIR.again). If more than five files fail, something else is wrong: none of them is run
again, and the run fails. If make fails without a failed test, as in a build, .ci/run leaves NAME.status beside NAME.log.
A file of make test that takes more of the processors than tests/budget.txt says is named. It fails when it takes ten
times as much, on a machine that needs twice as much for the others twenty times: a load or an older machine fails no file.

  --failed   only prints the paths of the files to run again
  --slowest  also says what was sampled (TAP_DIR/sampled), and names the ten files that took longest
"""
import os, pathlib, re, statistics, sys

MOST_FLAKY = 5
BUDGET = 5 # seconds of processors of a file that tests/budget.txt does not name
TOO_MUCH = 10 # times its budget; on a busy machine ranks that train until something happens take six times theirs
LINES = 20


class File:
    """A test file's TAP, which ends with the line that tests/tap.sh adds."""

    def __init__(self, folder, tap):
        self.path = str(tap.relative_to(folder))[:-len('.tap')]
        self.name = re.sub(r'.*?(?=tests/)', '', self.path)
        self.passed, self.skipped, self.failed = 0, [], [] # failed: a title and its lines
        planned = seen = 0
        in_order = True
        end = None
        lines = None # of the test that failed last
        for line in tap.read_text(errors='replace').splitlines():
            plan = re.match(r'1\.\.(\d+)', line)
            test = re.match(r'(not )?ok (.*)', line)
            end = re.match(r'# took (\d+) s, status (\d+)( once)?, (\d+) s of processors, again: (.*)', line) or end
            if plan:
                planned = int(plan[1])
            elif test:
                seen += 1
                in_order &= test[2].split()[:1] == [str(seen)]
                lines = None
                if re.search(r'# skip', line, re.I) and not test[1]:
                    self.skipped.append(test[2])
                elif test[1]:
                    lines = []
                    self.failed.append((test[2], lines))
                else:
                    self.passed += 1
            elif lines is not None and line.startswith('#') and not end:
                lines.append(line)
        self.seconds, status = (int(end[1]), int(end[2])) if end else (0, None)
        self.once = bool(end and end[3])
        self.cpu = int(end[4]) if end else 0
        self.again = end[5] if end else 'make test ONLY=' + self.name
        err = tap.with_name(tap.name + '.err')
        output = err.read_text(errors='replace').splitlines() if err.exists() else []
        if status == 124:
            self.failed.append((f'timed out after {self.seconds} s, {seen} of {planned} tests', output))
        elif status == 137:
            self.failed.append((f'was killed after {self.seconds} s, {seen} of {planned} tests', output))
        elif seen < planned or planned == 0:
            self.failed.append((f'broke off after {seen} of {planned} tests', output))
        elif seen > planned or not in_order:
            self.failed.append((f'ran {seen} tests, not {planned} in order', output))
        elif status != 0 and not self.failed:
            self.failed.append((f'ended with status {status}, though its tests passed', output))
        elif self.failed and not self.failed[-1][1]:
            self.failed[-1][1].extend(output)


    def passes_alone(self, other):
        """Whether `other`, this file's second run, passed, and skipped none of what had failed."""
        skipped = any(skip.startswith(title) for title, _ in self.failed for skip in other.skipped)
        return not other.failed and other.passed > 0 and not skipped


def read(folder):
    return {file.path: file for file in (File(folder, tap) for tap in sorted(folder.glob('**/*.tap')))}


def over_budget(files):
    """Yields the files of make test that used more of the processors than they may, what that is, and whether they fail."""
    text = pathlib.Path(__file__).with_name('budget.txt').read_text()
    exceptions = {path: int(seconds) for seconds, path in re.findall(r'^(\d+) (\S+)$', text, re.M)}
    files = [f for f in files if f.again.startswith('make test ') and not os.environ.get('SLOW')]
    usual = [f.cpu / exceptions[f.name] for f in files if f.name in exceptions] # of this machine
    limit = TOO_MUCH * max(1, statistics.median(usual)) if len(usual) >= 10 else None
    for file in files:
        budget = exceptions.get(file.name, BUDGET)
        if file.cpu > budget:
            yield file, budget, limit is not None and file.cpu > limit * budget


def checks_that_failed(folder, broken):
    for mark in sorted(folder.glob('*.status')):
        name = mark.name[:-len('.status')]
        if not any(f.path.startswith(name + '/') for f in broken):
            yield name, mark.read_text().strip(), (folder / (name + '.log')).read_text(errors='replace').splitlines()


def source_of(lines):
    """Of a test in bats, as (command, assertion): the line that failed, and the last one before it that runs something."""
    for line in lines:
        place = re.search(r'in test file (\S+), line (\d+)', line)
        if place and pathlib.Path(place[1]).exists():
            source = [text.strip() for text in pathlib.Path(place[1]).read_text().splitlines()][:int(place[2])]
            runs = [text for text in source if re.match(r'(\w+=\S* )*run ', text)]
            return runs[-1] if runs else None, source[-1]
    return None, None


def show(title, lines):
    """At most 30 lines: what ran, what was expected, and the end of what came."""
    print('failed:', title)
    command, expected = source_of(lines)
    if expected:
        print(*([f'  command:  {command}'] if command else []), f'  expected: {expected}', '  came:', sep='\n')
    for line in lines[-LINES:]:
        print('   ', line.removeprefix('# ') if expected else line)


def main(option, folder):
    files = read(folder)
    failed = [f for f in files.values() if f.failed]
    if option == '--failed':
        print(*[f.path for f in failed if not f.once] if len(failed) <= MOST_FLAKY else [], sep='\n')
        return 0
    others = read(folder.with_name(folder.name + '.again'))
    flaky = [f for f in failed if not f.once and f.path in others and f.passes_alone(others[f.path])]
    broken = [f for f in failed if f not in flaky]
    broken += [f for f in others.values() if f.failed and f.path not in files] # a sanitizer's reports
    if len(flaky) > MOST_FLAKY:
        broken, flaky = failed, []
    num_failed = 0
    for f in broken:
        for title, lines in f.failed:
            show(f'{f.name}: {title}', lines)
            num_failed += 1
        print('  again:', f.again)
    for name, status, lines in checks_that_failed(folder, broken):
        show(f'make {name} ended with status {status}', lines)
        num_failed += 1
    if len(broken) > MOST_FLAKY:
        print(f'{len(broken)} files failed: more than {MOST_FLAKY} are not run again')
    for f in flaky:
        for title, _ in f.failed:
            print(f'flaky: {f.name}: {title}: failed ({f.seconds} s), passed alone ({others[f.path].seconds} s)')
    counted = [others[f.path] if f in flaky else f for f in files.values()]
    for f in counted:
        for title in f.skipped:
            print(f'skipped: {f.name}: {title}')
    for f, budget, fails in over_budget(counted):
        print(f'{"failed: " * fails}over budget: {f.name}: {f.cpu} s of processors, and {budget} are its budget (tests/budget.txt)')
        num_failed += fails
    if option == '--slowest':
        print((folder / 'sampled').read_text(), end='')
        for f in sorted(files.values(), key=lambda f: -f.seconds)[:10]:
            print(f'slow: {f.seconds} s {f.path}')
    print(f'{sum(f.cpu for f in files.values())} s of processors')
    print(f'flaky: {len(flaky)} of {len(files)} files')
    print(f'{sum(f.passed for f in counted)} passed, {num_failed} failed, {sum(len(f.skipped) for f in counted)} skipped')
    return num_failed > 0 or not files


if __name__ == '__main__':
    option = sys.argv[1] if len(sys.argv) > 2 else ''
    sys.exit(main(option, pathlib.Path(sys.argv[-1])))
