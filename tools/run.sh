#!/usr/bin/env bash
# run.sh PORT: runs a server with the built module in the foreground. Its data are in build/run/PORT/, because two servers
# must not write to the same append-only file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

port=$1
server=$(tools/valkey.sh)
cli=$(dirname "$server")/valkey-cli
[ -x "$cli" ] || cli=valkey-cli

dir=$PWD/build/run/$port
mkdir -p "$dir"
sed "s|^loadmodule .*|loadmodule \"$PWD/build/emq.so\"|" valkey.conf.example >"$dir/valkey.conf"

emq="${cli#"$PWD"/} -p $port"
cat <<END
A job in three commands, from another terminal in this folder:

  $emq EMQ.ENQUEUE 2 'emq:{mail}:job:JOB00000000001' 'emq:{mail}:pending' JOB00000000001 'hello'
  $emq EMQ.BCLAIM 30000 3000 'emq:{mail}:'
  $emq EMQ.COMPLETE 2 'emq:{mail}:active' 'emq:{mail}:job:JOB00000000001' JOB00000000001 1 'emq:{mail}:'

Ctrl-C stops the server. Its data stays in build/run/$port/.

END
exec "$server" "$dir/valkey.conf" --port "$port" --dir "$dir"
