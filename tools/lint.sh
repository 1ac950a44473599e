#!/usr/bin/env bash
# The checks of `make lint`. All of them run; the exit code says whether every one passed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

pure=(./commands/... ./fence/... ./lease/...)
mapfile -t go_files < <(find module commands fence lease -name '*.go' ! -name '*_test.go')
scripts=(tools/*.sh examples/*.sh .ci/run)
failed=0

# check NAME COMMAND...: passes if the command succeeds; shows what it printed if it does not.
check() {
	local name=$1 out
	shift
	if out=$("$@" 2>&1); then
		echo "ok    $name"
	else
		echo "FAIL  $name"
		printf '%s\n' "$out"
		failed=1
	fi
}

# silent COMMAND...: succeeds if the command prints nothing; a search that finds nothing exits with 1.
silent() {
	local out status=0
	out=$("$@") || status=$?
	printf '%s' "$out"
	[ -z "$out" ] && [ "$status" -le 1 ]
}

# imports ALLOWED PACKAGE...: the direct imports that are not allowed, tests excepted.
imports() {
	local allowed=$1
	shift
	go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} imports {{.}}{{"\n"}}{{end}}' "$@" |
		grep -vE "^$| imports ($allowed)\$"
}

# goroutines: the go statements, at the beginning of a line, a block or a case.
goroutines() {
	awk '{ code = $0; sub(/\/\/.*/, "", code) }
		code ~ /(^|[;{:])[ \t]*go [[:alpha:]_(]/ { print FILENAME ":" FNR ": " $0 }' "${go_files[@]}"
}

# c_side TAGS: compiles the C files of the module with more warnings than its own build.
c_side() {
	local flags go_side c_side
	{ read -ra flags && read -ra go_side && read -ra c_side; } < <(
		go list -tags "$1" -f '{{range .CgoCFLAGS}}{{.}} {{end}}
{{range .CgoFiles}}{{.}} {{end}}
{{range .CFiles}}{{.}} {{end}}' ./module
	) || return
	cd module && go tool cgo -objdir "$tmp/" -- "${flags[@]}" "${go_side[@]}" &&
		gcc "${flags[@]}" -I "$tmp" -I . -fsyntax-only \
			-Wall -Wextra -Wshadow -Wstrict-prototypes -Werror "${c_side[@]}"
}

# built FILE: Valkey can load it, and it exports only its entry points.
built() {
	local exported
	exported=$(nm -D --defined-only "$1" | awk '{ print $3 }' | sort | xargs)
	echo "mode $(stat -c %a "$1"), exports $exported"
	[ -x "$1" ] && [ "$exported" = 'ValkeyModule_OnLoad ValkeyModule_OnUnload' ]
}

# fresh: the generated header is up to date.
fresh() { go run -C commands ../tools/mirror "$tmp/mirror.h" && diff module/mirror.h "$tmp/mirror.h"; }

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Not in build/, where the stand-ins of the image contain all of Go.
mapfile -t go_everywhere < <(git ls-files --cached --others --exclude-standard '*.go')
check 'gofmt' silent gofmt -l "${go_everywhere[@]}"
check 'module/mirror.h is what go generate makes' fresh
for tags in '' emqdebug; do
	with=${tags:+ -tags $tags}
	check "vet$with" go vet -tags "$tags" ./...
	check "staticcheck$with" go tool staticcheck -tags "$tags" ./...
	check "C warnings$with" c_side "$tags"
done

# These are Go modules of their own, with their own ./....
staticcheck=$(go tool -n staticcheck)
for own in bench operator cmd/emq test/browser clients/go clients/go/emqredis clients/go/emqprom clients/go/emqotel; do
	check "vet of $own" go -C $own vet ./...
	check "staticcheck of $own" env -C $own "$staticcheck" ./...
done
for own in operator cmd/emq clients/go clients/go/emqredis clients/go/emqprom clients/go/emqotel; do
	check "$own builds without cgo" env CGO_ENABLED=0 go -C $own build ./...
done

# Decisions import nothing that reads a clock, blocks, or allocates for a text; the module imports nothing that starts a
# thread or a goroutine. Only the listed imports are allowed, so that each new one is a deliberate decision.
check 'pure packages build without cgo' env CGO_ENABLED=0 go build "${pure[@]}"
check 'imports of the pure packages' silent imports \
	'bytes|errors|math|math/bits|slices|strconv|strings|unicode/utf8|emq/(commands|fence|lease)' "${pure[@]}"
check 'imports of the module' silent imports \
	'C|fmt|runtime|runtime/debug|slices|strconv|strings|unsafe|emq/(commands|fence|lease)' ./module
check 'no goroutine' silent goroutines
check 'no exit, no timer' silent grep -nE '\b(os\.Exit|log\.Fatal|time\.AfterFunc|runtime\.Goexit)' "${go_files[@]}"

for file in build/emq.so build/emq-debug.so; do
	check "$file" built "$file"
done

for script in "${scripts[@]}"; do
	check "bash -n $script" bash -n "$script"
done
if command -v clang-format >/dev/null; then
	mapfile -t c_files < <(find module -name '*.[ch]' ! -name mirror.h)
	check 'clang-format' clang-format --dry-run --Werror "${c_files[@]}"
else
	echo 'skip  clang-format: not installed'
fi
if command -v shellcheck >/dev/null; then
	check 'shellcheck' shellcheck --severity=warning "${scripts[@]}"
else
	echo 'skip  shellcheck: not installed'
fi

exit "$failed"
