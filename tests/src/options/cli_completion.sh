#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# cli_completion.sh FOLDER: test the bash completion, and the syntax of the zsh completion if zsh is installed.
set -euo pipefail
# shellcheck source=tests/support/cli_prologue.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../support/cli_prologue.sh"
folder=$1
mkdir set.ms data
touch file.txt
# The builtin works only during a completion.
# shellcheck disable=SC2317
compopt() { :; }
# shellcheck disable=SC1091
source "$folder/msimage"

# offers EXPECTED WORDS..: the completions of the last word, sorted and joined.
offers() {
    local expected=$1 got
    shift
    COMP_WORDS=(msimage "$@")
    COMP_CWORD=$#
    _msimage
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | paste -s -d ' ')
    [[ $got == "$expected" ]] || complain "$*: offers '$got', not '$expected'"
}

offers '-accuracy' -acc
offers '--scalar-visibilities --scale' --sc
offers 'data set.ms' ''
offers 'set.ms' s
offers 'briggs briggsbwtaper natural uniform' -weight ''
offers 'briggs briggsbwtaper' -weight b
offers '' -weight briggs ''
offers '-size' -weight briggs 0 -siz
offers '-size' -weight briggsbwtaper 0 -siz
offers 'data set.ms' -weight natural ''
offers '' -size ''
offers '' -size 64 ''
offers '-scalar-visibilities -scale' -size 64 64 -sc
offers 'auto cpu cuda' --backend ''
offers 'data file.txt set.ms' -name ''
offers 'data set.ms' -temp-dir ''
offers 'fp32 fp64' -make-psf -precision f
offers 'weighting' -help w
offers '' -scale -1
offers 'data set.ms' -shift 1deg -2deg ''

if command -v zsh >/dev/null; then
    zsh -n "$folder/_msimage"
fi
exit $failed
