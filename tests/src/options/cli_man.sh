#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# cli_man.sh PAGE WORDS: the man page is complete, has the words, and is typeset without a warning.
set -euo pipefail
if grep -n '@[A-Z]*@' "$1"; then exit 1; fi
command -v groff >/dev/null || exit 77
warnings=$(groff -t -man -ww -Tutf8 -rLL=100n "$1" 2>&1 >/dev/null)
if [[ -n $warnings ]]; then
    echo "$warnings"
    exit 1
fi
# Join the lines, because they may break anywhere. In a pipe, grep -q would end groff by a signal.
page=$(groff -t -man -Tascii -P-cbou "$1" | tr -s "[:space:]" " ")
grep -q -e "$2" <<<"$page"
