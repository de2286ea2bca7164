#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""cli_png.py MSIMAGE_PNG: pictures of FITS images of every kind, which this test writes card by card.
A file that is not an image is refused, and no picture is left."""
import math
import os
import struct
import subprocess
import sys
import tempfile
import zlib

SKY = {"CTYPE1": "'RA---TAN'", "CTYPE2": "'DEC--TAN'", "CRPIX1": 20, "CRPIX2": 15, "CRVAL1": 83.6, "CRVAL2": 22.0,
       "CDELT1": -0.01, "CDELT2": 0.01}
failed = 0


def complain(*text):
    global failed
    failed += 1
    print("FAILED:", *text)


def fits(path, shape, bitpix=-32, value=lambda x, y, z: x + y + 100 * z, **cards):
    """An image of nx, ny and planes; each pixel is value(x, y, plane)."""
    nx, ny, nz = (list(shape) + [1])[:3]
    head = {"SIMPLE": "T", "BITPIX": bitpix, "NAXIS": len(shape)}
    head.update({"NAXIS%d" % (k + 1): n for k, n in enumerate(shape)})
    head.update(cards)
    text = "".join(("%-8s= %20s" % item).ljust(80) for item in head.items()) + "END".ljust(80)
    code = {8: "B", 16: ">h", 32: ">i", -32: ">f", -64: ">d"}[bitpix]
    data = b"".join(struct.pack(code, value(x, y, z) if bitpix < 0 else int(value(x, y, z)))
                    for z in range(nz) for y in range(ny) for x in range(nx))
    with open(path, "wb") as f:
        f.write(text.ljust(-(-len(text) // 2880) * 2880).encode() + data.ljust(-(-len(data) // 2880) * 2880, b"\0"))


def pixels(path):
    """The rows of a PNG of 8 bits, three or four values a pixel."""
    with open(path, "rb") as f:
        data = f.read()
    at, packed = 8, b""
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", data[at + 8:at + 18])
        packed += data[at + 8:at + 8 + n] if kind == b"IDAT" else b""
        at += 12 + n
    step, raw = 4 if colour == 6 else 3, zlib.decompress(packed)
    rows, before = [], bytearray(width * step)
    for y in range(height):
        line = bytearray(raw[y * (width * step + 1) + 1:(y + 1) * (width * step + 1)])
        how = raw[y * (width * step + 1)]
        if how == 2:
            line = bytearray((a + b) & 255 for a, b in zip(line, before))
        for i in range(step if how == 1 else 0, len(line) if how == 1 else 0):
            line[i] = (line[i] + line[i - step]) & 255
        for i in range(len(line) if how > 2 else 0):
            left, up = line[i - step] if i >= step else 0, before[i]
            corner = before[i - step] if i >= step else 0
            if how == 4:
                p = left + up - corner
                paeth = min((left, up, corner), key=lambda v: abs(p - v)) # ties as in the standard
            line[i] = line[i] + (paeth if how == 4 else (left + up) // 2) & 255
        rows.append([tuple(line[x * step:x * step + 3]) for x in range(width)])
        before = line
    return rows


def run(program, *words, code=0, says=""):
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != code or says not in done.stderr:
        complain(words, "exits", done.returncode, "not", code, "with", says, ":", done.stderr)
    return done


def main(program):
    fits("tan.fits", (40, 30), **SKY)
    fits("integer.fit", (40, 30), bitpix=16, **SKY)
    fits("cube.fits", (32, 32, 3), **SKY, CTYPE3="'STOKES'", CRVAL3=1, CDELT3=1, CRPIX3=1,
         value=lambda x, y, z: (0, x - 15.5, -9)[z] or float("nan"))
    fits("plain.FTS", (20, 30), bitpix=-64)
    fits("rotated.fits", (40, 30), **SKY, CROTA2=30)
    fits("allsky.fits", (72, 36), CTYPE1="'GLON-AIT'", CTYPE2="'GLAT-AIT'", CRPIX1=36.5, CRPIX2=18.5, CRVAL1=0, CRVAL2=0,
         CDELT1=-5, CDELT2=5)
    fits("odd.fits", (40, 30), CTYPE1="'RA---ZZZ'", CTYPE2="'DEC--ZZZ'", CRVAL1=1e300, CDELT1=1e-300, CDELT2=0)
    run(program, "tan.fits", "integer.fit", "plain.FTS", "rotated.fits", "allsky.fits", "odd.fits", says="wrote tan.png")
    for name in ("tan", "integer", "plain", "rotated", "allsky", "odd"):
        if not os.path.getsize(name + ".png") > 2000:
            complain(name, "has no picture")
    if pixels("tan.png") == pixels("rotated.png"):
        complain("a rotated projection has the axes of one that is not")
    # Stokes Q: blue where it is negative, red where it is positive; the first plane has no value.
    run(program, "-quiet", "-plane", "1", "-range", "-20", "10", "-name", "q.png", "cube.fits")
    rows = pixels("q.png")
    left, right = rows[500][160], rows[500][940]
    if not (left[2] > left[0] + 60 and right[0] > right[2] + 60):
        complain("Stokes Q is", left, "and", right)
    run(program, "-quiet", "cube.fits")
    if pixels("cube.png")[500][160] != (0xd8, 0xd8, 0xd8):
        complain("a pixel without a value is", pixels("cube.png")[500][160])

    # A circle where a Gaussian is half of its peak: a blue line, which is nowhere else.
    fits("gauss.fits", (101, 101), value=lambda x, y, z: 0.5**(((x - 50)**2 + (y - 50)**2) / 30**2))
    fits("flat.fits", (101, 101), value=lambda x, y, z: 0)
    run(program, "-quiet", "-contour", "gauss.fits", "flat.fits")
    rows = pixels("flat.png")
    side = len(rows[0]) - 150 - 138  # the margins
    for k in range(12):
        for radius in 25, 30, 35:
            x, y = (50.5 + radius * f(k * math.pi / 6) for f in (math.cos, math.sin))
            column, row = int(150 + x / 101 * side), int(100 + side - y / 101 * side)
            blue = any(b > r + 100 and b > 150 for line in rows[row - 4:row + 5] for r, g, b in line[column - 4:column + 5])
            if blue != (radius == 30):
                complain("the line of half power at", x, y, "is there" if blue else "is missing")
    run(program, "-contour", "tan.fits", "-overwrite", "flat.fits", code=3, says="40 x 30 pixels")

    # Channel maps: each map has its velocity, or frequency, in light letters in the upper left corner.
    for rest in {}, {"RESTFRQ": 1.5e9}:
        fits("maps.fits", (32, 32, 4), **SKY, CTYPE3="'FREQ'", CRVAL3=1.4e9, CDELT3=1e6, CRPIX3=1, value=lambda x, y, z: 0, **rest)
        run(program, "-quiet", "-overwrite", "-channel-maps", "-range", "0", "1", "maps.fits")
        rows, side = pixels("maps-channels.png"), 65 * 13  # two maps of 32 pixels and a line, enlarged 13 times
        corners = []
        for k in range(4):
            left, top = 150 + k % 2 * 33 * 13, 100 + k // 2 * 33 * 13
            corners.append([line[left + 4:left + 100] for line in rows[top + 4:top + 24]])
            light = [sum(min(v) > 200 for line in part for v in line) for part in (corners[-1], [line[left + 4:left + 100] for line in rows[top + 30:top + 50]])]
            if len(rows[0]) != side + 150 + 138 or light[0] < 20 or light[1]:
                complain("the label of map", k, "has", light[0], "light pixels, and", light[1], "are below it")
        if any(corners[j] == corners[k] for j in range(4) for k in range(j)):
            complain("two maps have the same label")

    before = sorted(os.listdir("."))
    with open("none.fits", "wb") as f:
        f.write(b"no FITS")
    with open("tan.fits", "rb") as f, open("cut.fits", "wb") as g:
        g.write(f.read()[:2880 + 100])
    before += ["none.fits", "cut.fits"]
    run(program, code=2, says="usage: msimage-png")
    run(program, "-nonsense", "tan.fits", code=2, says="no such option")
    run(program, "-range", "2", "1", "tan.fits", code=2, says="the first value must be less")
    run(program, "-plane", "3", "-name", "x.png", "cube.fits", code=2, says="it has 3, counted from 0")
    run(program, "-name", "x.png", "tan.fits", "cube.fits", code=2, says="it needs exactly one image")
    run(program, "tan.fits", code=2, says="-overwrite replaces it")
    run(program, "-name", "x.png", "none.fits", code=3, says="not a FITS file")
    run(program, "-name", "x.png", "cut.fits", code=3, says="truncated")
    run(program, "-name", "x.png", "absent.fits", code=3, says="No such file")
    run(program, "-name", "absent/x.png", "tan.fits", code=4, says="absent")
    # If one of several files is not an image, none is drawn.
    run(program, "-overwrite", "tan.fits", "none.fits", code=3, says="none.fits")
    if sorted(before) != sorted(os.listdir(".")):
        complain("left:", set(os.listdir(".")) ^ set(before))
    run(program, "-overwrite", "-quiet", "tan.fits")
    sys.exit(1 if failed else 0)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.abspath(sys.argv[1])
    os.chdir(folder)
    try:
        main(path)
    finally:
        os.chdir("/")
