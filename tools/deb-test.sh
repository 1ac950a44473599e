#!/usr/bin/env bash
# The test of `make deb-test`: the package in a root folder of Debian, beside Debian's Valkey: installed, loaded as its
# README.Debian says, upgraded under a running server, removed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

# The test inside the root folder, with the package as the argument.
inside() {
	set -euo pipefail
	local deb=$1
	server=
	export DEBIAN_FRONTEND=noninteractive
	cli() { valkey-cli -s /run/valkey/s -e "$@"; }
	fail() { echo "FAIL  $*"; tail -n 20 /var/log/valkey/valkey-server.log; exit 1; }
	is() { [ "$2" = "$3" ] || fail "$1: $2, not $3"; echo "ok    $1"; }
	# up: the server as its service starts it, but for the port.
	up() {
		setpriv --reuid valkey --regid valkey --init-groups valkey-server /etc/valkey/valkey.conf --daemonize no \
			--port 0 --unixsocket /run/valkey/s &
		server=$!
		until cli PING >/dev/null 2>&1; do
			kill -0 "$server" 2>/dev/null || fail 'the server is gone'
			sleep 0.05
		done
	}
	down() {
		kill "$server"
		wait "$server" || fail "the server ended with $?"
		server=
	}
	trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true' EXIT

	apt-get -qq update
	apt-get -qq install --yes --no-install-recommends valkey-server >/dev/null 2>&1
	install -d -o valkey -g valkey /run/valkey
	up
	is 'Valkey alone' "$(cli SET before kept)" OK
	down
	cp /etc/valkey/valkey.conf /tmp/valkey.conf

	apt-get -qq install --yes "$deb" >/dev/null 2>&1
	is 'installed' "$(dpkg-query -W -f '${db:Status-Status}' valkey-emq)" installed
	is "Valkey's configuration is untouched" "$(cmp /etc/valkey/valkey.conf /tmp/valkey.conf && echo same)" same
	is 'mode of the module' "$(stat -c '%a %U' /usr/lib/valkey/emq.so)" '755 root'
	sed -n 's/^  \(include .*\)/\1/p' /usr/share/doc/valkey-emq/README.Debian >>/etc/valkey/valkey.conf
	up
	is 'the data from before' "$(cli GET before)" kept
	is 'a job goes in' "$(cli EMQ.ENQUEUE 2 'emq:{q}:job:JOB1' 'emq:{q}:pending' JOB1 'to: ann')" 1
	is 'eviction' "$(cli CONFIG GET maxmemory-policy | tail -n 1)" noeviction
	is 'the command' "$(emq --url unix:///run/valkey/s ls --json | grep -o '"queue":"q","pending":1')" '"queue":"q","pending":1'
	is 'which looks at the server' "$(emq --url unix:///run/valkey/s doctor | grep -cE '^EMQ (OK|WARNING) - ')" 1
	is 'its man page' "$(zcat /usr/share/man/man1/emq-work.1.gz | grep -c 'SIGTERM')" "$(emq work --help | grep -c SIGTERM)"
	is 'its completion' "$(bash -c '. /usr/share/bash-completion/completions/emq && complete -p emq' | wc -l)" 1
	apt-get -qq install --yes --reinstall "$deb" >/dev/null 2>&1
	is 'an upgrade leaves the running server alone' \
		"$(cli EMQ.CLAIM 2 'emq:{q}:pending' 'emq:{q}:active' 'emq:{q}:job:' 1000 | xargs)" 'JOB1 to: ann 1'
	down
	up
	is 'after a restart' "$(cli EMQ.COMPLETE 2 'emq:{q}:active' 'emq:{q}:job:JOB1' JOB1 1 'emq:{q}:')" 1
	is 'a rewrite, as a failover makes it' "$(cli CONFIG SET emq.max-stalled 7) $(cli CONFIG REWRITE)" 'OK OK'
	down
	up
	is 'starts again' "$(cli CONFIG GET emq.max-stalled | tail -n 1)" 7
	is 'with the module once' "$(cli MODULE LIST | grep -c emq.so)" 1
	is 'and says what can go' "$(grep -c 'more than one loadmodule line' /var/log/valkey/valkey-server.log)" 1
	is 'another job' "$(cli EMQ.ENQUEUE 2 'emq:{q}:job:JOB2' 'emq:{q}:pending' JOB2 'to: bob')" 1
	down

	is 'a removal after which the server would not start is refused' \
		"$(apt-get -qq remove --yes valkey-emq 2>&1 | grep -c '^/etc/valkey/valkey.conf:[0-9]*:\(loadmodule\|emq.max-stalled\)')" 2
	is 'and changes nothing' "$(dpkg-query -W -f '${db:Status-Status}' valkey-emq)" installed
	eval "$(sed -n 's/^  \(sed .*\)/\1/p' /usr/share/doc/valkey-emq/README.Debian)"
	apt-get -qq remove --yes valkey-emq >/dev/null 2>&1
	up
	is 'without the module the server starts' "$(cli EMQ.CLAIM 2>&1 | cut -d ' ' -f 1-3)" 'ERR unknown command'
	is 'and has its jobs' "$(cli HGET 'emq:{q}:job:JOB2' payload)" 'to: bob'
	down
	is 'nothing else is left' "$(find / -xdev -path /proc -prune -o -path '*emq*' ! -path "$deb" -print | wc -l)" 0
}

deb=$(ls -t build/valkey-emq_*_"$(dpkg --print-architecture)".deb | head -n 1)
if command -v lintian >/dev/null; then
	# The package closes no Debian bug, the project has not chosen a license yet, and Go programs are static.
	lintian --allow-root --fail-on error,warning \
		--suppress-tags initial-upload-closes-no-bugs,copyright-without-copyright-notice,statically-linked-binary "$deb"
	echo 'ok    lintian'
else
	echo 'skip  lintian: not installed'
fi

source tools/standin.sh base
container=$(buildah from --pull-never "$base")
trap 'buildah rm "$container" >/dev/null' EXIT
buildah copy --quiet "$container" "$deb" /tmp/ >/dev/null
buildah run "$container" -- bash -c "$(declare -f inside); inside '/tmp/${deb##*/}'"
