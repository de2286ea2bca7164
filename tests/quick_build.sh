#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# quick_build.sh SOURCE: scripts/build quick builds what a first image takes, for the GPU that is there or none; scripts/build all.
set -euo pipefail
# shellcheck source=tests/support/cli_prologue.sh
source "$(dirname "${BASH_SOURCE[0]}")/support/cli_prologue.sh"
mkdir -p tree/scripts bin
cp "$1/scripts/build" tree/scripts
# Stand-ins: what cmake is asked for goes to a file; there is a GPU of the capability that a file has.
printf '#!/bin/sh\necho "$@" >>"%s/asked"\n' "$PWD" >bin/cmake
printf '#!/bin/sh\n[ -s "%s/capability" ] && cat "%s/capability"\n' "$PWD" "$PWD" >bin/nvidia-smi
printf '#!/bin/sh\nprintf "compute_80\\ncompute_90\\n"\n' >bin/nvcc
chmod +x bin/*

# asks WANTED NOT_WANTED ARGUMENTS..: patterns of what cmake is asked for by scripts/build with these arguments.
asks() {
    local wanted=$1 unwanted=$2
    shift 2
    rm -f asked
    PATH=$PWD/bin:$PATH tree/scripts/build "$@" >/dev/null || complain "scripts/build $* fails"
    grep -q -E -- "$wanted" asked || complain "scripts/build $*: /$wanted/ is not in: $(cat asked)"
    ! grep -q -E -- "$unwanted" asked || complain "scripts/build $*: /$unwanted/ is in: $(cat asked)"
}

programs='--build --preset quick .*--target msimage msimage-png msimage-makems msimage-peak$'
: >capability
asks '--preset quick .*MSIMAGE_CUDA=OFF' ARCHITECTURES quick
asks "$programs" '--preset release' quick
echo 9.0 >capability
asks 'MSIMAGE_CUDA=AUTO -D CMAKE_CUDA_ARCHITECTURES=90-real( |$)' OFF quick
asks "$programs" '--preset release' quick
printf '9.0\n8.0\n' >capability
asks 'CMAKE_CUDA_ARCHITECTURES=80-real( |$)' OFF quick
echo 12.0 >capability
asks 'CMAKE_CUDA_ARCHITECTURES=90-virtual( |$)' OFF quick
echo 7.0 >capability
asks 'MSIMAGE_CUDA=OFF' ARCHITECTURES quick
asks '--build --preset release --parallel [0-9]+$' 'CUDA|quick|target'
! tree/scripts/build other 2>/dev/null || complain "scripts/build other succeeds"
exit $failed
