#!/usr/bin/env bash
# matrix.sh [FLAG...]: runs the suites on every release of Valkey that valkey.sh knows, or on those in $EMQ_RELEASES, one
# after the other, and prints a table of the results. The flags are those of go test. The logs stay in build/matrix/.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

count() { grep -cE "^--- $1: " "$log" || true; }

mkdir -p build/matrix
table=build/matrix/table
printf '| Valkey | passed | failed | skipped | result |\n| --- | --- | --- | --- | --- |\n' >"$table"
failed=0
for release in ${EMQ_RELEASES:-8.0 8.1 9}; do
	VALKEY_SERVER=$(tools/valkey.sh --release "$release")
	export VALKEY_SERVER
	version=$("$VALKEY_SERVER" --version | sed 's/.* v=\([^ ]*\).*/\1/')
	log=build/matrix/$version.log
	echo "Valkey $version; the log is $log"
	result=ok
	go test -count=1 -v -timeout 40m ./test/... ./clients/conformance "$@" >"$log" 2>&1 || result=failed
	if [ "$result" = failed ]; then
		failed=1
		grep -E '^ *--- FAIL: |^FAIL|^panic: ' "$log" || tail -n 20 "$log"
	fi
	echo "| $version | $(count PASS) | $(count FAIL) | $(count SKIP) | $result |" >>"$table"
done
echo
cat "$table"
exit "$failed"
