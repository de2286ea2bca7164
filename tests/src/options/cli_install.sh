#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# cli_install.sh BUILD: each program is installed with its man page and runs after the installation. The man page and the
# completions have each option of the help.
set -euo pipefail
# shellcheck source=tests/support/cli_prologue.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../support/cli_prologue.sh"
cmake --install "$1" --prefix "$work/prefix" >log || complain "cmake --install: $(cat log)"
for program in msimage msimage-makems msimage-bench msimage-mosaic msimage-png; do
    prefix/bin/$program -help >help || complain "$program -help"
    page=$(find prefix -name "$program.1")
    [[ -s $page ]] || complain "$program has no man page"
    bash=prefix/share/bash-completion/completions/$program zsh=prefix/share/zsh/site-functions/_$program
    [[ -s $bash && -s $zsh ]] || complain "$program has no completions"
    [[ $program == msimage ]] && continue
    grep -o '^  -[a-z-]*' help | tr -d ' ' >in_help
    awk 'tagged && $1 == ".B" { print $2 } { tagged = $0 == ".TP" }' "$page" | tr -d '\\' >in_page
    [[ -s in_help ]] || complain "$program -help lists no option"
    for shell in "$bash" "$zsh"; do
        grep -o -E "[ ']-[a-z-]+" "$shell" | tr -d " '" | grep -v -x -e -o -e -- | sort >offered
        sort in_help | diff - offered || complain "$shell offers other options than the help"
    done
    diff in_help in_page || complain "$program: the man page has other options than the help"
done
for file in recipes.md options.md from-wsclean.md examples/msimage.sbatch; do
    [[ -s prefix/share/doc/msimage/$file ]] || complain "$file is not installed"
done
exit $failed
