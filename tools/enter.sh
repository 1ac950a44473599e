#!/usr/bin/env bash
# enter.sh ROOT COMMAND...: runs a command in the root folder of the image, as its user, for `make image-test`. The
# process keeps this pid, and is killed with the caller. It sees /proc, /dev, this project and the temporary folder of the
# machine; as that has folders of the caller, the process may bypass their modes.
set -euo pipefail
if [ "${EMQ_ENTERED-}" != yes ]; then # the mounts end with the process
	EMQ_ENTERED=yes exec unshare --mount "$0" "$@"
fi
unset EMQ_ENTERED
root=$1
shift
project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
for folder in /proc /dev "${TMPDIR:-/tmp}" "$project"; do
	mkdir -p "$root$folder"
	mount --rbind "$folder" "$root$folder"
done
exec chroot "$root" setpriv --reuid valkey --regid valkey --clear-groups --no-new-privs \
	--inh-caps=-all,+dac_override --ambient-caps=-all,+dac_override --pdeathsig KILL -- "$@"
