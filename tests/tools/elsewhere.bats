#!/usr/bin/env bats
# Files for other hosts, checked without them: the Dockerfile (tests/container.sh runs its lines) and the workflows.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    suite=$(sed -n 's/^FROM debian:\([a-z]*\)-slim$/\1/p' Dockerfile)
    workflow=.github/workflows/tests.yml
}

@test "the Dockerfile's release is one that the workflow tests and chapter 00 lists" {
    grep -q "suite: \[.*\<$suite\>.*\]" "$workflow"
    grep -q "^| Debian .*($suite)" docs/00_setup.md
}

@test "the Dockerfile installs by setup.sh alone, which needs no more files than were copied before" {
    grep -qx 'RUN ./setup.sh && rm -rf /var/lib/apt/lists/\*' Dockerfile
    [ "$(grep -c '^RUN.*install' Dockerfile)" -eq 0 ]
    mkdir "$BATS_TEST_TMPDIR/setup"
    while read -r instruction words; do
        case $instruction in
        RUN) break ;;
        COPY)
            read -ra words <<<"$words"
            target=$BATS_TEST_TMPDIR/setup/${words[-1]}
            mkdir -p "$target"
            cp "${words[@]::${#words[@]}-1}" "$target"
            ;;
        esac
    done <Dockerfile
    cd "$BATS_TEST_TMPDIR/setup"
    run ./setup.sh --check
    echo "$output"
    [ "$status" -le 1 ]
    [ "$(grep -cv '^setup: ' <<<"$output")" -eq 0 ] # the shell would name a file that it did not find
}

@test "the Dockerfile's Debian has every package that setup.sh asks it for" {
    # shellcheck source=/dev/null
    [ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = "$suite" ] || skip "this is not $suite"
    # shellcheck source=/dev/null
    packages=$(. tools/parts.sh && parts | awk -F'|' '$1 ~ /^(required|tests|optional)$/ { print $5 }')
    [ "$(echo "$packages" | wc -w)" -gt 20 ]
    # shellcheck disable=SC2086 # several words
    known=$(apt-cache show bash $packages 2>/dev/null | sed -n 's/^Package: //p')
    [ -n "$known" ] || skip "apt knows no packages: apt-get update"
    missing=$(comm -23 <(printf '%s\n' $packages | sort -u) <(sort -u <<<"$known"))
    echo "missing: $missing"
    [ -z "$missing" ]
}

@test "the workflow runs both commands of the README on each of its machines" {
    for command in 'run\.sh.*' 'make test'; do
        command=$(sed -n "s/^    \(\.\/setup\.sh .*$command\)\$/\1/p" README.md)
        [ -n "$command" ]
        [ "$(grep -cxF "        run: $command" "$workflow")" -eq 2 ] # Debian's, ARM's
    done
}

@test "the workflows are as YAML what they look like" {
    python3 -c 'import yaml' 2>/dev/null || skip "Python has no yaml here"
    for file in .github/workflows/*.yml; do
        python3 - "$file" <<'END'
import sys, yaml

workflow = yaml.safe_load(open(sys.argv[1]))
assert workflow["name"] and workflow["permissions"] and workflow[True], "on: is a boolean in YAML 1.1"
for name, job in workflow["jobs"].items():
    assert job["runs-on"] and job["timeout-minutes"], name
    for step in job["steps"]:
        assert ("run" in step) != ("uses" in step), step
        assert "uses" not in step or "@v" in step["uses"], step
END
    done
}
