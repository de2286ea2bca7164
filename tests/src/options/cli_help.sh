#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# cli_help.sh MSIMAGE GOLDEN: -help prints the golden text. After a change: msimage -help > tests/src/options/golden/help.txt.
set -euo pipefail
"$1" -help | diff -u "$2" -
grep -q '^  -size WIDTH HEIGHT ' <<<"$("$1" -help size)"
grep -q '^  -weight MODE \[ROBUST\] ' <<<"$("$1" -help --weight)"
[[ $("$1" -help mask) == *'  -mask FILE '*'See also: '*' -fits-mask'*' -region-mask'* ]]
grep -q -- '-channel-range' <<<"$("$1" -help samples)"
