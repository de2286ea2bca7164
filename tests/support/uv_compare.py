# SPDX-License-Identifier: GPL-3.0-or-later
"""Two Measurement Sets, one of which has been UVFITS, row by row."""
import numpy as np

# u, v, w are float32 in the file: half a unit in the last place of 24 bits, of the component.
FLOAT = 6e-8
# A date is two parts, of which the second is below 2^-12 days: float32 holds it to 2^-37 days, 0.6 us, and double precision
# holds seconds since 1858 to 1 us.
DATE_S = 2e-6


def sorted_rows(r, but=()):
    """Rows by window, field, antennas and time, which any order in a file leaves alike."""
    return sorted((i for i in range(r.n) if i not in but),
                  key=lambda i: (r.DATA_DESC_ID[i], r.FIELD_ID[i], r.ANTENNA1[i], r.ANTENNA2[i], r.TIME[i]))


def ascending(r, i, values):
    """What a row holds for each channel, channels by their frequency."""
    return values[np.argsort(r.freq[r.window[r.DATA_DESC_ID[i]]])]


def compare(s, title, x, y, but=(), has_spectrum=True, date_s=DATE_S):
    """Are the rows of two sets alike, as far as UVFITS can hold them? but: rows of y that are left out; has_spectrum: WEIGHT is
    to be the mean of WEIGHT_SPECTRUM; date_s: so far TIME may differ."""
    order = list(zip(sorted_rows(x), sorted_rows(y, but)))
    s.must(x.n == y.n - len(but), "%s: %d rows" % (title, y.n))
    bad = dict.fromkeys(("data", "flags", "weights", "uvw", "time", "exposure", "frequencies", "row weight"), 0)
    for i, j in order:
        flag = ascending(x, i, x.flag[i] | x.FLAG_ROW[i])
        weight = ascending(x, i, np.asarray(x.weight[i]))
        w = y.weight[j]
        bad["data"] += not np.array_equal(ascending(x, i, x.data[i]), y.data[j])
        bad["flags"] += not np.array_equal(flag, y.flag[j])
        bad["weights"] += not np.array_equal(weight, w)
        bad["uvw"] += not np.all(abs(x.UVW[i] - y.UVW[j]) <= FLOAT * abs(x.UVW[i]))
        bad["time"] += abs(x.TIME[i] - y.TIME[j]) > date_s
        bad["exposure"] += abs(x.EXPOSURE[i] - y.EXPOSURE[j]) > FLOAT * x.EXPOSURE[i]
        f, g = np.sort(x.freq[x.window[x.DATA_DESC_ID[i]]]), y.freq[y.window[y.DATA_DESC_ID[j]]]
        # The file's table has steps of float32, counted from the first channel.
        bad["frequencies"] += not np.all(abs(f - g) <= FLOAT * (f[-1] - f[0]))
        good = np.where(y.flag[j], 0, w).astype(np.float64)
        n = np.maximum((~y.flag[j] & (w > 0)).sum(axis=0), 1)
        bad["row weight"] += has_spectrum and not np.allclose(y.row_weight[j], good.sum(axis=0) / n, rtol=2e-7, atol=0)
    for what, n in bad.items():
        s.must(n == 0, "%s: %s, %d rows differ" % (title, what, n))
