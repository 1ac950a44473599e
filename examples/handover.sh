#!/usr/bin/env bash
# Makes a replica the primary where Sentinels watch, under load: no answer is lost, and no write is refused to a client that
# follows the Sentinels and sends again what was not answered.
#
#   handover.sh SENTINEL-HOST SENTINEL-PORT NAME
#
# NAME is what the Sentinels call the primary. Passwords are read from SERVER_AUTH and SENTINEL_AUTH; valkey-cli must be on
# the PATH. Why in this order: docs/operations.md, "Upgrade and rollback".
set -euo pipefail

[ $# = 3 ] || { echo "usage: handover.sh SENTINEL-HOST SENTINEL-PORT NAME" >&2; exit 2; }
name=$3
pause_ms=60000 # outlives the time in which the Sentinels would turn the old primary into a replica by themselves

die() { echo "handover.sh: $*" >&2; exit 1; }

# server HOST PORT WORD… and sentinel HOST PORT WORD…: one command; an error of the server's is a failure.
server() { send "${SERVER_AUTH-}" "$@" | tr -d '\r'; }
sentinel() { send "${SENTINEL_AUTH-}" "$1" "$2" SENTINEL "${@:3}"; }
send() (
	unset REDISCLI_AUTH
	[ -z "$1" ] || export REDISCLI_AUTH=$1
	exec timeout 10 valkey-cli -e -h "$2" -p "$3" "${@:4}"
)
primary() { sentinel "$1" "$2" GET-MASTER-ADDR-BY-NAME "$name" | paste -sd ' '; }
offset() { server "$1" "$2" INFO replication | sed -n "s/^$3://p"; }

# within SECONDS WHAT COMMAND…: waits until the command succeeds.
within() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@"; do
		[ $SECONDS -lt $end ] || die "waited too long for $what"
		sleep 0.05
	done
}

in_step() { [ "$(offset "$1" "$2" slave_repl_offset)" -ge "$(offset "$old_host" "$old_port" master_repl_offset)" ]; }
moved() {
	local now
	now=$(primary "$1" "$2") && [ "$now" != "$old" ]
}

# suitable: the Sentinel knows a replica that it would promote, of what it was told lately.
suitable() {
	sentinel "$1" "$2" REPLICAS "$name" | awk '
		function judge() { found += f["flags"] == "slave" && f["master-link-status"] == "ok" && f["info-refresh"] < 25000 && f["slave-priority"] > 0; delete f }
		NR % 2 { if ($0 == "name") judge(); field = $0; next } { f[field] = $0 } END { judge(); exit !found }'
}

old=$(primary "$1" "$2")
read -r old_host old_port <<<"$old" || die "the Sentinel knows no $name"
sentinel "$1" "$2" CKQUORUM "$name" >/dev/null || die "the Sentinels are too few"
within 30 "a replica that the Sentinel would promote" suitable "$1" "$2"
mapfile -t replicas < <(server "$old_host" "$old_port" INFO replication | sed -n 's/^slave[0-9]*:ip=\(.*\),port=\([0-9]*\),state=online,.*/\1 \2/p')
[ ${#replicas[@]} -gt 0 ] || die "$old has no replica that is online"
mapfile -t sentinels < <(sentinel "$1" "$2" SENTINELS "$name" | awk '
	NR % 2 { field = $0; next } field == "ip" { ip = $0 } field == "port" { print ip, $0 }')
sentinels+=("$1 $2")

# From here on the old primary answers no write. If it comes to nothing, it goes on.
began=${EPOCHREALTIME/[.,]/}
server "$old_host" "$old_port" CLIENT PAUSE "$pause_ms" WRITE >/dev/null
trap 'server "$old_host" "$old_port" CLIENT UNPAUSE >/dev/null' EXIT
for replica in "${replicas[@]}"; do
	# shellcheck disable=SC2086 # a host and a port
	within 5 "$replica to have everything" in_step $replica
done
sentinel "$1" "$2" FAILOVER "$name" >/dev/null

# From here on another may be the primary, so the old one must not go on as one: if this ends early, it stays paused until
# the Sentinels have told it.
trap - EXIT
for watcher in "${sentinels[@]}"; do
	# shellcheck disable=SC2086
	within 30 "the Sentinel $watcher to know another primary" moved $watcher
done
new=$(primary "$1" "$2")
# shellcheck disable=SC2086
server "$old_host" "$old_port" REPLICAOF $new >/dev/null
server "$old_host" "$old_port" CONFIG REWRITE >/dev/null 2>&1 || true # it may have no file
server "$old_host" "$old_port" CLIENT UNPAUSE >/dev/null              # who waited is sent away with READONLY
server "$old_host" "$old_port" CLIENT KILL TYPE normal >/dev/null     # and who did not, looks for the primary anew
echo "$name: $old is a replica of $new now; writes waited for $(((${EPOCHREALTIME/[.,]/} - began) / 1000)) ms"
