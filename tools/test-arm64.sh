#!/usr/bin/env bash
# Tests the arm64 build on another architecture: the tests of the pure packages, and the golden file against an arm64 server
# with the module, all under qemu's user-mode emulation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

command -v qemu-aarch64-static >/dev/null || { echo 'not installed: qemu-user-static' >&2; exit 1; }
server=$(tools/valkey.sh --release 8.0 --arch arm64)
GOARCH=arm64 CGO_ENABLED=0 go test -count=1 -exec qemu-aarch64-static ./commands/... ./fence/... ./lease/...
VALKEY_SERVER=$server EMQ_MODULE=$PWD/build/arm64/emq.so EMQ_MODULE_DEBUG=$PWD/build/arm64/emq.so \
	go test -count=1 -v -run '^(TestGolden|TestLife|TestClaimOrder)$' ./test/ | grep -E '^(---|ok|FAIL|PASS)'
