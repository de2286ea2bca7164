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
    alike = {}
    for i, j in order:
        alike.setdefault((x.window[x.DATA_DESC_ID[i]], y.window[y.DATA_DESC_ID[j]], x.data[i].shape, y.data[j].shape), []).append((i, j))
    for (of_x, of_y, shape, other), pairs in alike.items():
        i, j = np.array(pairs).T
        if shape != other:
            for what in ("data", "flags", "weights", "row weight"):
                bad[what] += len(pairs)
            continue
        # [row][channel][correlation]
        channels = np.argsort(x.freq[of_x])
        data, flag, weight = (np.array([of[k] for k in i])[:, channels] for of in (x.data, x.flag, x.weight))
        got, got_flag, w = (np.array([of[k] for k in j]) for of in (y.data, y.flag, y.weight))
        flag = flag | x.FLAG_ROW[i][:, None, None]
        every = (1, 2)
        bad["data"] += np.any(data != got, axis=every).sum()
        bad["flags"] += np.any(flag != got_flag, axis=every).sum()
        bad["weights"] += np.any(weight != w, axis=every).sum()
        bad["uvw"] += (~np.all(abs(x.UVW[i] - y.UVW[j]) <= FLOAT * abs(x.UVW[i]), axis=1)).sum()
        bad["time"] += (abs(x.TIME[i] - y.TIME[j]) > date_s).sum()
        bad["exposure"] += (abs(x.EXPOSURE[i] - y.EXPOSURE[j]) > FLOAT * x.EXPOSURE[i]).sum()
        f, g = np.sort(x.freq[of_x]), y.freq[of_y]
        # The file's table has steps of float32, counted from the first channel.
        bad["frequencies"] += 0 if np.all(abs(f - g) <= FLOAT * (f[-1] - f[0])) else len(pairs)
        mean = np.where(got_flag, 0, w).astype(np.float64).sum(axis=1) / np.maximum((~got_flag & (w > 0)).sum(axis=1), 1)
        row_weight = np.array([y.row_weight[k] for k in j])
        if has_spectrum:
            bad["row weight"] += (~np.all(np.isclose(row_weight, mean, rtol=2e-7, atol=0), axis=1)).sum()
    for what, n in bad.items():
        s.must(n == 0, "%s: %s, %d rows differ" % (title, what, n))
