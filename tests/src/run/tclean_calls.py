#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of CASA's tclean, -tclean and msimage.tclean: every parameter of CASA 6 is answered, and the images are those of the
options that a call stands for. tclean_calls.py MSIMAGE MSIMAGE_MAKEMS [CHECK ..]"""
import importlib.util
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from program_suite import ImagingSuite, fresh_copy, main
import numpy as np
from astropy.io import fits
from casacore.tables import table

# The parameters of tclean with the defaults of CASA 6.6, from its documentation.
CASA = dict(selectdata=True, field="", spw="", timerange="", uvrange="", antenna="", scan="", observation="", intent="",
            datacolumn="corrected", imsize=[128], cell=["12arcsec"], phasecenter="", stokes="I", projection="SIN", startmodel="",
            specmode="mfs", reffreq="", nchan=-1, start="", width="", outframe="LSRK", veltype="radio", restfreq=[], interpolation="linear",
            perchanweightdensity=True, gridder="standard", facets=1, psfphasecenter="", wprojplanes=1, vptable="", mosweight=True,
            aterm=True, psterm=False, wbawp=True, conjbeams=False, cfcache="", usepointing=False, computepastep=360.0, rotatepastep=360.0,
            pointingoffsetsigdev=[], pblimit=0.2, normtype="flatnoise", deconvolver="hogbom", scales=[], nterms=2, smallscalebias=0.0,
            fusedthreshold=0.0, largestscale=-1, restoration=True, restoringbeam=[], pbcor=False, outlierfile="", weighting="natural",
            robust=0.5, noise="1.0Jy", npixels=0, uvtaper=[], niter=0, gain=0.1, threshold=0.0, nsigma=0.0, cycleniter=-1, cyclefactor=1.0,
            minpsffraction=0.05, maxpsffraction=0.8, interactive=False, nmajor=-1, fullsummary=False, usemask="user", mask="", pbmask=0.0,
            sidelobethreshold=3.0, noisethreshold=5.0, lownoisethreshold=1.5, negativethreshold=0.0, smoothfactor=1.0, minbeamfrac=0.3,
            cutthreshold=0.01, growiterations=75, dogrowprune=True, minpercentchange=-1.0, verbose=False, fastnoise=True, restart=True,
            savemodel="none", calcres=True, calcpsf=True, psfcutoff=0.35, parallel=False, chanchunks=1)

AUTO = dict(usemask="auto-multithresh", sidelobethreshold=2.0, noisethreshold=4.25)
CUBE = dict(specmode="cube", outframe="LSRK", veltype="radio", restfreq="1.42GHz", restoringbeam="common", weighting="briggs")
# Public imaging scripts, by what they ask of tclean; with the parameter that is refused, or "" if the call runs.
SCRIPTS = {
    "MeerKAT science image": (dict(gridder="wproject", wprojplanes=512, deconvolver="mtmfs", nterms=2, pblimit=-1, weighting="briggs", niter=9,
                                   threshold="1mJy", scales=[0, 5], reffreq="1.42GHz"), ""),
    "maximum entropy": (dict(deconvolver="mem"), "deconvolver"),
    "uGMRT, wide": (dict(gridder="wproject", deconvolver="mtmfs", nterms=2, scales=[0, 5, 15], niter=9, smallscalebias=0.6, savemodel="modelcolumn",
                         minbeamfrac=0.1, pblimit=-0.001, pbcor=True, **AUTO), ""),
    "ALMA disc": (dict(deconvolver="multiscale", scales=[0, 5, 30], mask="circle[[64pix, 64pix], 20pix]", gain=0.3, niter=9), ""),
    "MeerKAT quick look": (dict(specmode="mfs", deconvolver="clark", niter=9, threshold="0.5mJy", weighting="briggs", robust=0), ""),
    "ALMA and VLA self-calibration": (dict(deconvolver="multiscale", scales=[0, 2], smallscalebias=0.6, nsigma=3.0, niter=9, cycleniter=200,
                                           uvtaper=["40klambda"], pblimit=0.1, savemodel="none", **AUTO), ""),
    "uGMRT": (dict(gridder="wproject", deconvolver="multiscale", scales=[0, 5], niter=9, savemodel="modelcolumn", minbeamfrac=0.1, pblimit=-0.001,
                   **AUTO), ""),
    "ALMA mosaic cube": (dict(gridder="mosaic", mosweight=True, perchanweightdensity=True, **CUBE), ""),
    "VLA HI cube": (dict(CUBE, outframe="bary", pbcor=True, pblimit=0.1, niter=9, threshold="1mJy", gridder="wproject", wprojplanes=128), ""),
    "VLA velocity cube": (dict(CUBE, start="100km/s", width="40km/s", nchan=2, niter=0, nsigma=3, restfreq="1420.405752MHz"), ""),
    "ALMA continuum": (dict(deconvolver="multiscale", scales=[0, 2, 4], uvtaper=["3arcsec", "2arcsec", "30deg"], gain=0.3, niter=9), ""),
    "ALMA mosaic with robust channels": (dict(gridder="mosaic", usepointing=False, **dict(CUBE, weighting="briggsbwtaper")), ""),
    "robust channels of one field": (dict(CUBE, weighting="briggsbwtaper", robust=0.0), ""),
    "VLASS": (dict(gridder="awproject", conjbeams=True, rotatepastep=5.0, deconvolver="mtmfs", nterms=2, usepointing=True, pblimit=0.02, niter=9,
                   threshold="1mJy"), ""),
    "ALMA mosaic with terms": (dict(gridder="mosaic", deconvolver="mtmfs", nterms=2, scales=[0, 3, 9], pblimit=0.1, usemask="pb", pbmask=0.1, pbcor=True,
                                    niter=9, threshold="1mJy", savemodel="modelcolumn"), ""),
    "ALMA mosaic of an earlier model": (dict(gridder="mosaic", deconvolver="mtmfs", nterms=2, startmodel=["a.model.tt0", "a.model.tt1"]), "startmodel"),
    "mosaic of long baselines": (dict(gridder="mosaic", deconvolver="multiscale", scales=[0, 5], pblimit=0.5, uvrange=">0.1klambda", niter=9,
                                      threshold="1mJy"), ""),
    "outliers": (dict(outlierfile="outlier.txt"), "outlierfile"),
    "a gridder of nothing": (dict(gridder="nonsense"), "gridder"),
    "a model": (dict(startmodel="a.model"), "startmodel"),
    "a moving source": (dict(specmode="cubesource"), "specmode"),
}


def observed(s):
    return s.made("c.ms", "-telescope", "vla", "-config", "D", "-duration", "10min", "-integration", "2min", "-ra", "60deg", "-dec", "40deg", "-pol",
                  "XX,YY", "-source", "60deg", "40deg", "1Jy", "-0.7", "-noise", "0.1Jy", "-spw", "1418.8MHz", "500kHz", 6)


def call(s, **parameters):
    return "tclean(%s)" % ", ".join("%s=%r" % p for p in dict(CASA, vis=observed(s), imagename="t", **parameters).items())


def check_parameters(s):
    """All parameters with tclean's defaults run; one that tclean does not have, and values that are no literals, are refused."""
    done = s.launch("-quiet", "-dry-run", "-tclean", call(s))
    s.must(done.returncode == 0, "all defaults: " + done.stderr)
    done = s.launch("-quiet", "-dry-run", "-tclean", call(s, phasecenter=0))
    s.must(done.returncode == 0, "a field's number: " + done.stderr)
    s.refused("no such field", 3, "-shift field 7: .* has the fields 0 to 0", "-dry-run", "-tclean", call(s, phasecenter="7"))
    s.refused("a parameter of nothing", 2, "-tclean: nonsense is not a parameter of tclean", "-tclean", "tclean(nonsense=1)")
    s.refused("a variable", 2, "-tclean: a string, a number.* at 'myms,", "-tclean", "tclean(vis=myms, imagename='x')")
    s.refused("no end", 2, "-tclean: the end of a string", "-tclean", "tclean(vis='a.ms)")
    s.refused("a region and a file", 2, "-tclean: mask=a list is refused: ", "-tclean", call(s, niter=9, mask=["circle[[9pix, 9pix], 3pix]", "a.mask"]))
    s.refused("no set", 2, "-tclean: vis=nothing", "-tclean", "tclean(imagename='x', imsize=64, cell='1arcsec')")


def check_selection(s):
    """Scans, observations and intents are selected by CASA's expressions; regions of a list are one mask."""
    path = fresh_copy(s.made("scans.ms", "-config", "D", "-duration", "6min", "-integration", "1min", "-scan-length", "2", "-pol", "XX,YY", "-spw", "1.4GHz",
                             "1MHz", 1), s.path("intents.ms"))
    with table(path, readonly=False, ack=False) as t, table(path + "/STATE", readonly=False, ack=False) as states:
        states.addrows(2 - states.nrows())
        for k, intent in enumerate(("CALIBRATE_PHASE#ON_SOURCE,CALIBRATE_WVR#ON_SOURCE", "OBSERVE_TARGET#ON_SOURCE")):
            states.putcell("OBS_MODE", k, intent)
        scan = t.getcol("SCAN_NUMBER")
        t.putcol("STATE_ID", (scan % 2).astype("i4"))
    s.refused("no such intent", 3, "selection intent 'NOTHING'", "-select-intent", "NOTHING", "-size", 64, 64, "-scale", "12asec", "-name", "n", path)
    ids = np.unique(scan)
    s.must(len(ids) == 3, "three scans: %s" % ids)
    odd = scan % 2 == 1
    for words, rows in ((dict(scan="%d~%d" % (ids[0], ids[1])), scan <= ids[1]), (dict(scan=">%d" % ids[0]), scan > ids[0]), (dict(scan=int(ids[2])), scan == ids[2]),
                        (dict(intent="*TARGET*"), odd), (dict(intent="OBSERVE_TARGET#ON_SOURCE"), odd), (dict(intent="CALIBRATE_PHASE*"), ~odd),
                        (dict(observation=0), scan > -1), (dict(scan="<=%d" % ids[1], intent="*TARGET*"), odd & (scan <= ids[1]))):
        done = s.launch("-quiet", "-overwrite", "-tclean", "tclean(vis=%r, imagename='n', imsize=64, cell='12arcsec', %s)" %
                        (path, ", ".join("%s=%r" % w for w in words.items())))
        n = fits.getheader(os.path.join(s.out, "n-image.fits"))["WSCNVIS"] if done.returncode == 0 else done.stderr
        s.must(n == rows.sum(), "%s: %s samples of %d" % (words, n, rows.sum()))
    away, there = "circle[[100pix, 100pix], 3pix]", "box[[60pix, 60pix], [68pix, 68pix]]"
    for mask, peak in ([away], 0), ([away, there], 1):
        done = s.launch("-quiet", "-overwrite", "-tclean", call(s, niter=200, nmajor=2, threshold="0.5Jy", mask=mask, imsize=128))
        s.must(done.returncode == 0, "regions: " + done.stderr)
        model = fits.getdata(os.path.join(s.out, "t-model.fits"))[0, 0]
        s.must((model[60:69, 60:69].max() > 0.3) == peak and np.count_nonzero(model) == np.count_nonzero(model[60:69, 60:69]) + np.count_nonzero(model[97:104, 97:104]),
               "%d regions: components are in them" % len(mask))
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))


def check_sets(s):
    """Lists with a field, window or time for each set: the image is the mean of those of the sets, by their weights."""
    common = ("-config", "D", "-duration", "4min", "-integration", "1min", "-pol", "XX,YY", "-noise", "0.3Jy", "-source", "60deg", "40deg", "1Jy")
    here, away = ("60deg", "40deg"), ("62deg", "41deg")
    one = s.made("set1.ms", *common, "-ra", away[0], "-dec", away[1], "-field", *here, "-spw", "1.3GHz", "1MHz", 2, "-spw", "1.4GHz", "1MHz", 6)
    two = s.made("set2.ms", *common, "-ra", here[0], "-dec", here[1], "-field", *away, "-spw", "1.1GHz", "1MHz", 1, "-spw", "1.3GHz", "1MHz", 2, "-spw",
                 "1.4GHz", "1MHz", 6, "-seed", 2)

    def image(name, vis, **words):
        done = s.launch("-quiet", "-overwrite", "-tclean", "tclean(vis=%r, imagename=%r, imsize=64, cell='12arcsec', %s)" %
                        (vis, name, ", ".join("%s=%r" % w for w in words.items())))
        s.must(done.returncode == 0, "%s: %s" % (words, done.stderr))
        with fits.open(os.path.join(s.out, name + "-image.fits")) as f:
            return f[0].data.squeeze(), f[0].header["WSCIMGWG"], f[0].header["WSCNVIS"]

    for lists in (dict(field=["1", "0"], spw=["1:0~3", "2:2~5"]), dict(field=["1", "0"], spw=["", "1,2"], uvrange=[">0.5klambda", ""])):
        (a, wa, na), (b, wb, nb) = (image("a", v, **{k: v_of[i] for k, v_of in lists.items()}) for i, v in enumerate((one, two)))
        both, weight, n = image("b", [one, two], **lists)
        off = np.abs(both - (wa * a + wb * b) / (wa + wb)).max()
        s.must(off < 1e-4 * np.abs(both).max() and n == na + nb and abs(weight / (wa + wb) - 1) < 1e-6, "%s: %.1e Jy/beam from the mean" % (lists, off))
        s.must(both.max() > 0.8, "the source has %.2f Jy" % both.max())
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))
    s.refused("too few items", 2, "-tclean: spw is a list of 2, vis of 3; give one value for all sets, or one for each", "-tclean",
              "tclean(vis=['a', 'b', 'c'], imagename='x', spw=['1', '2'])")
    s.refused("too few expressions", 3, "selection '1.2.3': 3 expressions for 2 sets; give one", "-select-spw", "1|2|3", "-size", 64, 64, "-scale",
              "12asec", "-name", "n", one, two)


def check_channels(s):
    """Starts and widths in channels count those of the window, selected or not, in its order; the other frequencies are given."""
    for step in 2e6, -2e6:
        path = s.made("order%d.ms" % (step > 0), "-config", "D", "-duration", "2min", "-integration", "1min", "-pol", "XX,YY", "-spw", "1.2GHz", "1MHz", 2, "-spw",
                      "1.4GHz", "%gMHz" % (step / 1e6), 10)
        hz = 1.4e9 + step * np.arange(10)
        for words, planes in ((dict(start=3, nchan=2, spw="1:2~7"), hz[3:5]), (dict(start=1, nchan=3, spw="1:2~7"), hz[1:4]), (dict(spw="1:2~7"), hz[2:8]),
                              (dict(start=7, nchan=2, width=-1, spw="1:2~7"), hz[[7, 6]]), (dict(width=2, spw="1"), (hz[:-1] + step / 2)[::2]),
                              (dict(start="%g GHz" % (hz.min() / 1e9), width="2 MHz", nchan=2, spw="1"), np.sort(hz)[:2]), (dict(start=0, nchan=2, spw="0"), (1.2e9, 1.201e9))):
            done = s.launch("-quiet", "-overwrite", "-tclean", "tclean(vis=%r, imagename='n', imsize=64, cell='12arcsec', specmode='cube', outframe='TOPO', %s)" %
                            (path, ", ".join("%s=%r" % w for w in words.items())))
            s.must(done.returncode == 0, "%s: %s" % (words, done.stderr))
            with fits.open(os.path.join(s.out, "n-image.fits")) as f:
                h, seen = f[0].header, np.isfinite(f[0].data[0].max(axis=(1, 2)))
            got = h["CRVAL3"] + h["CDELT3"] * (np.arange(h["NAXIS3"]) + 1 - h["CRPIX3"])
            s.must(len(got) == len(planes) and np.abs(got - planes).max() < 1, "%s: planes at %s MHz" % (words, got / 1e6))
            s.must(seen.all() or (words.get("start") == 1 and list(seen) == [False, True, True]), "%s: planes with samples: %s" % (words, seen))
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))


def check_ways(s):
    """The ways that refusals name: outliers are modelled and subtracted; a model continues; sets with and without CORRECTED_DATA."""
    common = ("-config", "D", "-duration", "4min", "-integration", "1min", "-pol", "XX,YY", "-spw", "1.4GHz", "1MHz", 2, "-ra", "60deg", "-dec", "40deg",
              "-source", "60deg", "40deg", "0.1Jy")
    path = fresh_copy(s.made("outlier.ms", *common, "-source", "61deg", "40.5deg", "5Jy"), s.path("way.ms"))
    image = "tclean(vis=%r, imagename='w', imsize=64, cell='12arcsec')"
    outlier = ("tclean(vis=%r, imagename='out', imsize=64, cell='12arcsec', niter=500, threshold='1mJy', mask='circle[[32pix, 32pix], 2pix]', phasecenter='J2000 61deg 40.5deg', "
               "savemodel='modelcolumn')" % path)
    pixels = []
    for words in (("-tclean", image % path), ("-tclean", outlier), ("-tclean", image % path, "-subtract-model"), ("-tclean", image % s.made("alone.ms", *common))):
        done = s.launch("-quiet", "-overwrite", *words)
        s.must(done.returncode == 0, "%s: %s" % (words[-1], done.stderr))
        pixels.append(fits.getdata(os.path.join(s.out, "w-image.fits")).squeeze())
    before, after = (np.abs(p - pixels[3]).max() for p in (pixels[0], pixels[2]))
    s.must(before > 0.05 and after < 0.01, "the outlier changes the image by %.1e Jy/beam, after -subtract-model by %.1e" % (before, after))
    words = "tclean(vis=%r, imagename='w', imsize=64, cell='12arcsec', niter=20, threshold='1mJy'%%s)" % s.made("alone.ms", *common)
    s.must(s.launch("-quiet", "-overwrite", "-tclean", words % "").returncode == 0, "a model")
    # A model of tclean has the frequency in LSRK, here moved by the earth's 40 km/s; one that is another band's is refused.
    for frame, moved, code in ("LSRK", 1.3e-4, 0), ("LSRK", 1e-3, 3), ("TOPOCENT", 1.3e-4, 3):
        with fits.open(os.path.join(s.out, "w-model.fits"), mode="update") as f:
            f[0].header.update(SPECSYS=frame, CRVAL3=1.4005e9 * (1 + moved))
        done = s.launch("-quiet", "-overwrite", "-tclean", words % ", calcres=False, calcpsf=False", "-continue")
        total = fits.getdata(os.path.join(s.out, "w-model.fits")).sum()
        s.must(done.returncode == code and (code == 0 or "its frequency is" in done.stderr) and total > 0.095, "continued, %s: %s" % (frame, done.stderr))
    both = [fresh_copy(s.made("alone.ms", *common), s.path("corrected%d.ms" % k)) for k in range(2)]
    with table(both[1], readonly=False, ack=False) as t:
        t.renamecol("DATA", "CORRECTED_DATA")
    for vis in (both, both[::-1]):
        done = s.launch("-quiet", "-overwrite", "-tclean", image % (vis,))
        s.must(done.returncode == 0 and abs(fits.getdata(os.path.join(s.out, "w-image.fits")).max() - 0.1) < 0.002, "two columns: %s" % done.stderr)
    for name in os.listdir(s.out):
        os.remove(os.path.join(s.out, name))
    s.refused("two columns without a call", 3, "choose the data column", "-size", 64, 64, "-scale", "12asec", "-name", "n", *both)


def check_scripts(s):
    """Public scripts run, or one parameter of each is refused by name."""
    n = 0
    for name, (parameters, refused) in SCRIPTS.items():
        done = s.launch("-quiet", "-dry-run", "-pb", "airy:25", "-tclean", call(s, **parameters))
        if refused:
            s.judge_refusal(name, done, 2, "-tclean: %s=.* is refused: " % refused)
        else:
            s.must(done.returncode == 0, "%s: %s" % (name, done.stderr))
            n += 1
    print("%d of %d calls run" % (n, len(SCRIPTS)))


def check_images(s):
    """The image of a call is that of its options; in Python the call is a function."""
    ms = observed(s)
    run = dict(niter=30, weighting="briggs", robust=0.0, threshold="20 mJy", uvtaper=["50 arcsec", "30arcsec", "20 deg"], deconvolver="multiscale", scales=[0, 2], imagename="t",
               vis=ms, imsize=[128, 96], cell="12 arcsec", savemodel="none", specmode="cube", nchan=3, start=1, width=2)
    words = ("-like", "tclean", "-field", "all", "-size", 128, 96, "-scale", "12asec", "-cube", "-frame", "LSRK", "-cube-nchan", 3, "-cube-start", 1,
             "-cube-width", 2, "-weight", "briggs", 0, "-taper-gaussian", "50asec,30asec,20deg", "-multiscale", "-multiscale-scales", "0,4", "-niter", 30,
             "-threshold", "20mJy", "-no-update-model-required")
    text = "tclean(  # a comment\n%s,)" % ",\n ".join("%s = %r" % p for p in run.items())
    for name, done in ("t", s.launch("-quiet", "-tclean", text)), ("o", s.launch("-quiet", *words, "-name", "o", ms)):
        s.must(done.returncode == 0, "%s: %s" % (name, done.stderr))
    spec = importlib.util.spec_from_file_location("_tclean", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python/msimage/_tclean.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.tclean(msimage=s.msimage, options=["-quiet"], **dict(run, imagename=os.path.join(s.out, "p"), scales=np.array([0, 2])))
    for kind in "image", "model", "residual", "psf":
        t, o, p = (fits.getdata(os.path.join(s.out, "%s-%s.fits" % (n, kind))) for n in "top")
        s.must(np.array_equal(t, o) and np.array_equal(t, p), "%s: the same image by the call, by options and in Python" % kind)
    try:
        module.tclean(msimage=s.msimage, **dict(run, gridder="nonsense"))
        s.complain("a refused parameter does not raise an exception")
    except RuntimeError as e:
        s.must("gridder=nonsense" in str(e), "an exception: %s" % e)


if __name__ == "__main__":
    main(ImagingSuite, globals())
