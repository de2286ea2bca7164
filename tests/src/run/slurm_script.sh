#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
# slurm_script.sh SCRIPT MSIMAGE MSIMAGE_MAKEMS: the batch script has no mistake that a shell finds, and its command makes an
# image of two ranks where mpirun stands for srun.
set -euo pipefail
script=$(realpath "$1") msimage=$(realpath "$2") makems=$(realpath "$3")
bash -n "$script"
if [[ ! -x ${msimage}-mp ]] || ! grep -q "Open MPI" <<<"$(mpirun --version 2>/dev/null)"; then
    echo "skipped: msimage-mp is not built, or there is no mpirun of Open MPI"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$makems" -quiet -telescope vla -duration 20s "$folder/set.ms"
export ASAN_OPTIONS=detect_leaks=0 OMPI_MCA_plm=isolated OMPI_MCA_btl=self,vader OMPI_MCA_btl_vader_single_copy_mechanism=none
export MSIMAGE_LAUNCH="mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2" MSIMAGE_MP="${msimage}-mp"
(cd "$folder" && SLURM_CPUS_PER_TASK=1 bash "$script" -backend cpu -size 64 64 -scale 2asec -name image set.ms) 2>&1 |
    tee "$folder/log"
grep -q "ranks: 2 on 1 host" "$folder/log"
[[ -s $folder/image-dirty.fits ]]
