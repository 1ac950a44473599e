#!/usr/bin/env bash
# The test of `make image-test`: the image is built on stand-ins of its base images (standin.sh) and started in every way that
# its entry point knows; then the suites of test/ run against its server and module, except test/sanitizers, which has a host
# of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

server= # the pid of one that runs

# The image by itself, in a network of its own, where its port is free. The folder is its root.
smoke() {
	local root=$1 health=$2
	ip link set lo up
	local plain=(tools/enter.sh "$root" setpriv --inh-caps=-all --ambient-caps=-all)
	local inside=("${plain[@]}" sh -c 'cd /data && exec "$@"' sh)
	cli() { "${inside[@]}" valkey-cli -e "$@"; }
	fail() { echo "FAIL  $*"; cat "$root/data/out"; exit 1; }
	# up ARGUMENT...: what a container given these arguments does, until it is healthy.
	up() {
		"${inside[@]}" emq-entrypoint "$@" >"$root/data/out" 2>&1 &
		server=$!
		until "${inside[@]}" sh -c "$health" 2>/dev/null; do
			kill -0 "$server" 2>/dev/null || fail "the server is gone: $*"
			sleep 0.05
		done
	}
	down() {
		kill "$server"
		wait "$server" || fail "the server ended with $?"
		server=
	}
	is() { [ "$2" = "$3" ] || fail "$1: $2, not $3"; echo "ok    $1"; }
	trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT

	is 'mode of the module' "$(stat -c %a "$root/usr/lib/valkey/emq.so")" 755

	up
	is 'user of the server' "$(stat -c %u "/proc/$server")" 999
	is 'a job goes in' "$(cli EMQ.ENQUEUE 2 'emq:{q}:job:JOB1' 'emq:{q}:pending' JOB1 'to: ann')" 1
	is 'the command' "$("${inside[@]}" env HOME=/data emq ls --json | grep -o '"queue":"q","pending":1')" '"queue":"q","pending":1'
	is 'which looks at the server' "$("${inside[@]}" env HOME=/data emq doctor | grep -cE '^EMQ (OK|WARNING) - ')" 1
	is 'eviction' "$(cli CONFIG GET maxmemory-policy | tail -n 1)" noeviction
	is 'no stranger comes in' "$(cli CONFIG GET bind protected-mode | sort | xargs)" '* -::* bind protected-mode yes'
	down
	up --maxmemory 50mb
	is 'the job is there after a restart' "$(cli EMQ.CLAIM 2 'emq:{q}:pending' 'emq:{q}:active' 'emq:{q}:job:' 1000 | xargs)" 'JOB1 to: ann 1'
	is 'a flag' "$(cli CONFIG GET maxmemory | tail -n 1)" 52428800
	down
	VALKEY_EXTRA_FLAGS='--requirepass secret' up valkey-server --maxmemory 60mb
	is 'flags after the name of the server' "$(cli -a secret --no-auth-warning CONFIG GET maxmemory | tail -n 1)" 62914560
	is 'healthy, though it asks for a password' "$(cli PING 2>&1 | cut -d ' ' -f 1)" NOAUTH
	down
	printf 'loadmodule /usr/lib/valkey/emq.so\n' >"$root/data/own.conf"
	up own.conf --maxmemory 70mb
	is 'a configuration of the user' "$(cli CONFIG GET maxmemory | tail -n 1)" 73400320
	is 'with the module, too' "$(cli COMMAND LIST FILTERBY MODULE emq | grep -c EMQ.CLAIM)" 1
	is 'which may be rewritten' "$(cli CONFIG REWRITE)" OK
	down
	up
	is 'the configuration of the image again' "$(cli CONFIG GET maxmemory-policy | tail -n 1)" noeviction
	is 'which a failover may rewrite' "$(cli CONFIG REWRITE)" OK
	down
	is 'another command' "$("${inside[@]}" emq-entrypoint echo hello)" hello
	is 'a question to the server' "$("${inside[@]}" emq-entrypoint valkey-server --version | cut -d ' ' -f 1,2)" 'Valkey server'
	is 'a folder that is not its own' "$("${plain[@]}" sh -c 'cd / && exec emq-entrypoint' 2>&1 | cut -d : -f 1)" emq
}

if [ "${1-}" = smoke ]; then
	shift
	smoke "$@"
	exit
fi

source tools/standin.sh
# What the command imports comes from this machine's cache.
go -C cmd/emq mod download
BUILDER=buildah tools/image.sh localhost/emq:test --pull=never --build-arg GOPROXY=file:///modules \
	--volume "$(go env GOMODCACHE)/cache/download:/modules:ro" >"$store/build.log" 2>&1 ||
	{ tail -n 40 "$store/build.log"; exit 1; }
container=$(buildah from --pull-never localhost/emq:test)
trap 'buildah rm "$container" >/dev/null; buildah rmi --prune >/dev/null' EXIT # with the images of earlier runs
root=$(buildah mount "$container")
config() { buildah inspect --type image --format "{{$1}}" localhost/emq:test; }
[ "$(config .Docker.Config.User)" = 999:999 ] || { echo 'FAIL  the image names no user'; exit 1; }
unshare --net "$0" smoke "$root" "$(config 'index .Docker.Config.Healthcheck.Test 1')"

# A wrapper for the server of the image, and its module in a place that both sides of the tests see. A Sentinel checks that it
# owns its configuration.
cat >"$store/valkey-server" <<-END
	#!/bin/sh
	case "\${1-}" in *.conf) chown 999:999 "\$1" "\${1%/*}" ;; esac
	exec "$PWD/tools/enter.sh" "$root" valkey-server "\$@"
END
chmod 755 "$store/valkey-server"
cp -p "$root/usr/lib/valkey/emq.so" "$store/emq.so"
mapfile -t packages < <(go list ./test/... | grep -v '/sanitizers$')
VALKEY_SERVER=$store/valkey-server EMQ_MODULE=$store/emq.so EMQ_MODULE_DEBUG=$PWD/build/emq-debug.so \
	go test -count=1 -timeout 40m "${packages[@]}" "$@"
