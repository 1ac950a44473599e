#!/bin/sh
# The entry point of the image. What it is given:
#
#   nothing, or flags        a server with /etc/valkey/valkey.conf, then the flags, then $VALKEY_EXTRA_FLAGS
#   FILE.conf [flag...]      a server with that file instead
#   anything else            that command
#
# A leading valkey-server makes no difference.
set -euf

[ "${1-}" != valkey-server ] || shift
case "${1-}" in
-h | --help | -v | --version) set -- valkey-server "$@" ;;
'' | -*) set -- valkey-server /etc/valkey/valkey.conf "$@" ${VALKEY_EXTRA_FLAGS-} ;;
*.conf) set -- valkey-server "$@" ${VALKEY_EXTRA_FLAGS-} ;;
esac

if [ "$1" = valkey-server ] && [ ! -w . ]; then
	echo "emq: $PWD can't be written by user $(id -u): give it the folder, or use a named volume" >&2
	exit 1
fi
umask 077
exec "$@"
