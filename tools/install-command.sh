#!/usr/bin/env bash
# install-command.sh RUNS EMQ PREFIX: puts the command EMQ, its man pages and completions under PREFIX. RUNS is the same
# command, built for this machine, which writes them. The same source gives the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

runs=$PWD/${1#"$PWD"/} prefix=$3
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

install -D -m 0755 "$2" "$prefix/bin/emq"
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
"$runs" man "$pages"
gzip -9n "$pages"/*.1
install -d "$prefix/share/man/man1"
install -m 0644 "$pages"/*.1.gz "$prefix/share/man/man1/"

# completion SHELL FILE: where the shell looks for it.
completion() {
	install -d "$(dirname "$prefix/$2")"
	"$runs" completion "$1" >"$prefix/$2"
	chmod 644 "$prefix/$2"
}
completion bash share/bash-completion/completions/emq
case $prefix in # Debian keeps its own packages' apart
*/usr) completion zsh share/zsh/vendor-completions/_emq ;;
*) completion zsh share/zsh/site-functions/_emq ;;
esac
completion fish share/fish/vendor_completions.d/emq.fish
