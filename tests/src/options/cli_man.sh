#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# cli_man.sh PAGE WORDS: the man page is typeset without a warning, in full, and has the words.
set -euo pipefail
if grep -n '@[A-Z]*@' "$1"; then exit 1; fi
command -v groff >/dev/null || exit 77
warnings=$(groff -t -man -ww -Tutf8 -rLL=100n "$1" 2>&1 >/dev/null)
if [[ -n $warnings ]]; then
    echo "$warnings"
    exit 1
fi
# Lines are filled with spaces, and break anywhere. A grep in a pipe, which ends when it has found them, would end groff by a
# signal.
page=$(groff -t -man -Tascii -P-cbou "$1" | tr -s "[:space:]" " ")
grep -q -e "$2" <<<"$page"
