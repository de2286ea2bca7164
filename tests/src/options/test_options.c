/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The parser of the command line: values that options store, errors, and random words. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/memory.h"
#include "core/status.h"
#include "src/options/option_table.h"
#include "src/options/options.h"
#include "src/options/suggestion.h"
#include "src/options/wsclean_options.h"

enum { MAX_WORDS = 64 };

static char words_text[4096];

/* Parse a command line with words separated by spaces; ~ is an empty word. */
static int parse(msi_options *o, const char *line)
{
    static const char *argv[MAX_WORDS + 1];
    int argc = 0;
    snprintf(words_text, sizeof words_text, "msimage %s", line);
    for (char *p = strtok(words_text, " "); p && argc < MAX_WORDS; p = strtok(NULL, " "))
        argv[argc++] = strcmp(p, "~") == 0 ? p + 1 : p;
    argv[argc] = NULL;
    return msi_options_parse(o, argc, argv);
}

#define NEEDED "-size 256 128 -scale 2asec "

static msi_options parsed(const char *line)
{
    msi_options o;
    char text[2048];
    snprintf(text, sizeof text, NEEDED "%s a.ms", line);
    if (parse(&o, text) != MSI_OK) fail_msg("%s: %s", line, msi_error_get());
    return o;
}

/* Check that a command line fails with a message that begins with `begin` and contains `advice`. */
static void refused(const char *line, const char *begin, const char *advice)
{
    msi_options o;
    int rc = parse(&o, line);
    msi_options_free(&o);
    if (rc != MSI_EUSAGE) fail_msg("%s: returned %d", line, rc);
    const char *message = msi_error_get();
    if (strncmp(message, begin, strlen(begin)) != 0 || !strstr(message, advice)) fail_msg("%s: %s", line, message);
}

static void refused_value(const char *words, const char *begin, const char *advice)
{
    char line[1024];
    snprintf(line, sizeof line, NEEDED "%s a.ms", words);
    refused(line, begin, advice);
}

static void test_defaults(void **state)
{
    (void)state;
    msi_options o = parsed("");
    assert_int_equal(o.action, MSI_ACTION_RUN);
    assert_true(o.geometry.nx == 256 && o.geometry.ny == 128);
    double cell = 2 * MSI_PI / 180 / 3600;
    assert_true(fabs(o.geometry.cell_x_rad / cell - 1) < 1e-15 && o.geometry.cell_y_rad == o.geometry.cell_x_rad);
    assert_string_equal(o.name, "msimage");
    assert_int_equal(o.weighting.mode, MSI_WEIGHT_NATURAL);
    assert_true(o.weighting.robust == 0 && o.weighting.taper.major_rad == 0);
    assert_true(o.accuracy == 1e-4);
    assert_int_equal(o.n_pol, 1);
    assert_int_equal(o.pol[0], MSI_POL_I);
    assert_string_equal(o.gridder, "wgrid");
    assert_string_equal(o.strategy, "auto");
    assert_true(o.n_slice == 0 && o.kernel == MSI_KERNEL_AUTO);
    assert_int_equal(o.backend, MSI_BACKEND_AUTO);
    assert_int_equal(o.precision, MSI_PRECISION_AUTO);
    assert_true(o.padding == 0 && o.channels_out == 1 && o.intervals_out == 1 && o.mf_weighting == 1);
    assert_true(!o.make_psf && !o.make_psf_only && !o.overwrite && !o.png && !o.save_weights && !o.save_uv &&
                !o.dry_run);
    assert_true(!o.shift_set && !o.log_time && !o.temp_dir);
    assert_int_equal(o.log_level, MSI_LOG_NORMAL);
    assert_true(o.n_threads >= 1);
    assert_true(o.memory_limit_bytes == msi_memory_physical());
    const msi_ms_selection none = {0};
    assert_memory_equal(&o.selection, &none, sizeof none);
    assert_int_equal(o.n_ms, 1);
    assert_string_equal(o.ms_paths[0], "a.ms");
    assert_string_equal(o.command_line, "msimage -size 256 128 -scale 2asec a.ms");
    msi_options_free(&o);
}

static void test_image_options(void **state)
{
    (void)state;
    msi_options o =
        parsed("--pol iq,XX,yx -make-psf-only -channels-out 8 -intervals-out 3 -shift 08h24m07.0s -42d59m48.0s");
    static const msi_pol expected[] = {MSI_POL_I, MSI_POL_Q, MSI_POL_XX, MSI_POL_YX};
    assert_int_equal(o.n_pol, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(o.pol[i], expected[i]);
    assert_true(o.make_psf && o.make_psf_only && o.channels_out == 8 && o.intervals_out == 3 && o.shift_set);
    assert_true(fabs(o.shift_ra_rad - 126.02916666666667 * MSI_PI / 180) < 1e-12);
    assert_true(fabs(o.shift_dec_rad + 42.99666666666667 * MSI_PI / 180) < 1e-12);
    msi_options_free(&o);

    o = parsed("-channels-out 4 -channel-division-frequencies 870e6,920MHz,0.98GHz -gap-channel-division");
    assert_true(o.division.by_gaps && o.division.n_split == 3 && o.division.split_hz[0] == 870e6);
    assert_true(fabs(o.division.split_hz[1] - 920e6) < 1e-6 && fabs(o.division.split_hz[2] - 980e6) < 1e-6);
    msi_options_free(&o);

    o = parsed("-pol IQUVXXXYYXYYRRRLLRLL");
    assert_int_equal(o.n_pol, MSI_MAX_POL);
    msi_options_free(&o);
}

/* Numbers without a unit have the units of WSClean: degrees for pixels, arcseconds for beams and tapers. */
static void test_units_of_bare_numbers(void **state)
{
    (void)state;
    const double deg = MSI_PI / 180, asec = deg / 3600;
    msi_options o = parsed("-scale 0.004 -taper-gaussian 30 -beam-size 15 -padding 1");
    assert_true(fabs(o.geometry.cell_x_rad / (0.004 * deg) - 1) < 1e-15 && o.padding == 1);
    assert_string_equal(o.bare_scale, "0.004");
    assert_true(fabs(o.weighting.taper.major_rad / (30 * asec) - 1) < 1e-15);
    assert_true(fabs(o.clean.beam.given.major_rad / (15 * asec) - 1) < 1e-15);
    msi_options_free(&o);
    o = parsed("-scale 2uasec -taper-gaussian 0 -niter 9 -auto-threshold 3 -squared-channel-joining");
    assert_true(fabs(o.geometry.cell_x_rad / (2e-6 * asec) - 1) < 1e-15 && !o.bare_scale);
    assert_true(o.weighting.taper.major_rad == 0);
    msi_options_free(&o);
    refused_value("-taper-gaussian -1", "-taper-gaussian -1:", "0 is no taper");
    refused_value("-beam-size 0", "-beam-size 0:", "larger than 0");
}

static void test_sample_options(void **state)
{
    (void)state;
    msi_options o =
        parsed("-data-column MODEL_DATA -field 3,1,3 -spws 0,2 -channel-range 4 64 -interval 1 9 -minuv-l 10 "
               "-maxuv-l 2e4 -select-spw 0:5~60 -select-antenna !DA41 -select-uvrange >100m -select-time "
               ">2015/06/03 -taql ANTENNA1<10 -minuvw-m 30 -maxuvw-m 4e3");
    const msi_ms_selection *s = &o.selection;
    assert_string_equal(s->data_column, "MODEL_DATA");
    assert_true(s->n_field == 2 && s->fields[0] == 3 && s->fields[1] == 1 && !s->all_fields);
    assert_true(s->n_spw == 2 && s->spws[0] == 0 && s->spws[1] == 2);
    assert_true(s->channel_begin == 4 && s->channel_end == 64 && s->interval_begin == 1 && s->interval_end == 9);
    assert_true(s->min_uv_lambda == 10 && s->max_uv_lambda == 2e4);
    assert_true(s->min_uvw_m == 30 && s->max_uvw_m == 4e3);
    assert_string_equal(s->mssel[MSI_MSSEL_SPW], "0:5~60");
    assert_string_equal(s->mssel[MSI_MSSEL_ANTENNA], "!DA41");
    assert_string_equal(s->mssel[MSI_MSSEL_UVRANGE], ">100m");
    assert_string_equal(s->mssel[MSI_MSSEL_TIME], ">2015/06/03");
    assert_string_equal(s->taql, "ANTENNA1<10");
    assert_null(s->mssel[MSI_MSSEL_FIELD]);
    msi_options_free(&o);

    o = parsed("-field all");
    assert_true(o.selection.all_fields);
    msi_options_free(&o);
    o = parsed("-field all -field 2");
    assert_true(!o.selection.all_fields && o.selection.n_field == 1 && o.selection.fields[0] == 2);
    msi_options_free(&o);
    o = parsed("-select-field 3C286");
    assert_string_equal(o.selection.mssel[MSI_MSSEL_FIELD], "3C286");
    assert_true(o.selection.all_fields);
    msi_options_free(&o);
    o = parsed("-select-field 3C286 -field 1");
    assert_true(!o.selection.all_fields && o.selection.fields[0] == 1);
    msi_options_free(&o);
}

static void test_weight_options(void **state)
{
    (void)state;
    msi_options o = parsed("-weight briggs -0.5 -no-mf-weighting -taper-gaussian 2amin");
    assert_int_equal(o.weighting.mode, MSI_WEIGHT_BRIGGS);
    assert_true(o.weighting.robust == -0.5 && !o.mf_weighting);
    assert_true(fabs(o.weighting.taper.major_rad / (MSI_PI / 5400) - 1) < 1e-15);
    msi_options_free(&o);
    o = parsed("-weight briggs 2 -weight uniform -no-mf-weighting -mf-weighting");
    assert_int_equal(o.weighting.mode, MSI_WEIGHT_UNIFORM);
    assert_true(o.weighting.robust == 0 && o.mf_weighting);
    assert_true(o.weighting.rank_level == 0 && o.weighting.rank_size == 16);
    msi_options_free(&o);
    o = parsed("-weighting-rank-filter 3 -weighting-rank-filter-size 8");
    assert_true(o.weighting.rank_level == 3 && o.weighting.rank_size == 8);
    msi_options_free(&o);
    o = parsed("-channels-out 3 -weight briggsbwtaper 0.5");
    assert_true(o.weighting.mode == MSI_WEIGHT_BRIGGS && o.weighting.robust == 0.5 && o.bandwidth_taper);
    assert_true(!o.mf_weighting && o.weighting.bandwidth == 0);
    msi_options_free(&o);
    o = parsed("-taper-gaussian 40klambda -minuv-l 5 -maxuv-l 900 -taper-inner-tukey 20 -taper-tukey 100 -maxw 80");
    const msi_uv_taper *t = &o.weighting.taper;
    /* A Gaussian that is 1/2 at h wavelengths is the transform of one of FWHM 2 ln 2 / (pi h). */
    assert_true(fabs(t->major_rad * MSI_PI * 40000 / (2 * log(2)) - 1) < 1e-14 && t->minor_rad == 0);
    assert_true(t->inner_lambda == 5 && t->inner_tukey == 20 && t->outer_lambda == 900 && t->outer_tukey == 100);
    assert_true(o.most_w_percent == 80 && o.selection.min_uv_lambda == 5 && o.selection.max_uv_lambda == 900);
    msi_options_free(&o);
    o = parsed("-taper-gaussian 2amin,60asec,0.5rad -minuv-l 5 -maxuv-l 900 -taper-at cell -taper-edge 7 "
               "-taper-edge-tukey 8 -visibility-weighting-mode squared");
    assert_true(fabs(t->major_rad / (MSI_PI / 5400) - 1) < 1e-15 && fabs(t->minor_rad / (MSI_PI / 10800) - 1) < 1e-15);
    assert_true(t->pa_rad == 0.5 && t->edge_lambda == 7 && t->edge_tukey == 8 && t->at_cells);
    assert_true(o.weighting.vis == MSI_VIS_WEIGHT_SQUARED);
    /* Cells are then within the limits, not samples. */
    assert_true(t->inner_lambda == 5 && t->outer_lambda == 900);
    assert_true(o.selection.min_uv_lambda == 0 && o.selection.max_uv_lambda == 0);
    msi_options_free(&o);
}

/* The defaults of a peer are those of a line that gives them; other options win wherever they are. */
static void test_like(void **state)
{
    (void)state;
    static const char *const lines[][2] = {
        {"-like wsclean",
         "-weight uniform -weight-padding 1.2 -weighting-rank-filter 3 -taper-at cell -no-mf-weighting "
         "-beam-fit-rule wsclean -nmiter 20 -name wsclean"},
        {"-weight briggs 1 -taper-at sample -like wsclean -niter 10 -channels-out 2 -join-channels -nmiter 3 -name a",
         "-weight briggs 1 -weight-padding 1.2 -weighting-rank-filter 3 -mf-weighting -beam-fit-rule wsclean -nmiter 3 "
         "-niter 10 -channels-out 2 -join-channels -name a"},
        {"-field 0,2 -like tclean -beam-fit-rule wsclean -niter 5",
         "-stokes-weight mean -no-mf-weighting -nmiter 0 -multiscale-rule tclean -multiscale-shape spheroidal "
         "-beam-fit-rule wsclean -niter 5 -field 0,2"},
        {"-like wsclean -like none", ""},
        {"-padding 1.4 -like wsclean -weight briggs 0",
         "-weight briggs 0 -weight-padding 1.4 -weighting-rank-filter 3 -taper-at cell "
         "-no-mf-weighting -beam-fit-rule wsclean -nmiter 20 -name wsclean"},
        {"-like wsclean -channels-out 2 -weight briggsbwtaper 0",
         "-channels-out 2 -weight briggsbwtaper 0 -weight-padding 1.2 -taper-at cell -beam-fit-rule wsclean -nmiter 20 "
         "-name wsclean"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char name[32];
        msi_options a = parsed(lines[i][0]);
        snprintf(name, sizeof name, "%s", a.name); /* parsed() keeps the words of its last call */
        msi_options b = parsed(lines[i][1]);
        assert_memory_equal(&a.weighting, &b.weighting, sizeof a.weighting);
        assert_true(a.mf_weighting == b.mf_weighting && a.stokes_weight == b.stokes_weight);
        assert_true(a.clean.beam.rule == b.clean.beam.rule && a.clean.nmiter == b.clean.nmiter);
        assert_true(a.clean.scale_rule == b.clean.scale_rule && a.clean.shape == b.clean.shape);
        assert_true(a.selection.n_field == b.selection.n_field && a.clean.niter == b.clean.niter);
        assert_string_equal(name, b.name);
        msi_options_free(&a);
        msi_options_free(&b);
    }
    /* Only the user's own -mgain below 1 writes MODEL_DATA. */
    static const struct {
        const char *line;
        double mgain;
        int writes, weight_given;
    } writers[] = {{"-niter 10", 0.8, 0, 0},
                   {"-niter 10 -like wsclean", 1, 0, 0},
                   {"-niter 10 -like tclean -weight uniform", 0.8, 0, 1},
                   {"-mgain 0.7 -niter 10 -like wsclean", 0.7, 1, 0}};
    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        msi_options o = parsed(writers[i].line);
        assert_true(o.clean.mgain == writers[i].mgain);
        assert_int_equal(msi_clean_options_writes_model(&o), writers[i].writes);
        assert_int_equal(o.weight_given, writers[i].weight_given);
        msi_options_free(&o);
    }
    refused_value("-like casa", "-like casa:", "wsclean");
}

static void test_other_options(void **state)
{
    (void)state;
    msi_options o =
        parsed("-name out/a -overwrite -png -save-weights -save-uv -dry-run -make-psf -accuracy 1e-6 -precision "
               "fp32 -gridder wgrid -backend cpu -padding 1.5 -j 3 -abs-mem 0.5 -temp-dir /tmp -verbose -log-time");
    assert_string_equal(o.name, "out/a");
    assert_true(o.overwrite && o.png && o.save_weights && o.save_uv && o.dry_run && o.make_psf && !o.make_psf_only);
    assert_true(o.accuracy == 1e-6 && o.padding == 1.5 && o.n_threads == 3 && o.log_time);
    assert_int_equal(o.precision, MSI_PRECISION_FP32);
    assert_int_equal(o.backend, MSI_BACKEND_CPU);
    assert_int_equal(o.log_level, MSI_LOG_VERBOSE);
    assert_string_equal(o.temp_dir, "/tmp");
    assert_true(o.memory_limit_bytes == (msi_memory_physical() < 500000000 ? msi_memory_physical() : 500000000));
    msi_options_free(&o);
    o = parsed("-mem 50 -precision fp64 -accuracy 1e-12 -quiet -backend cuda");
    assert_true(llabs(o.memory_limit_bytes - msi_memory_physical() / 2) <= 1);
    assert_int_equal(o.precision, MSI_PRECISION_FP64);
    assert_int_equal(o.backend, MSI_BACKEND_CUDA);
    assert_int_equal(o.log_level, MSI_LOG_QUIET);
    assert_int_equal(o.gpus.kind, MSI_GPUS_AUTO);
    msi_options_free(&o);
    o = parsed("-gpus one");
    assert_int_equal(o.gpus.kind, MSI_GPUS_ONE);
    msi_options_free(&o);
    o = parsed("-gpus all");
    assert_int_equal(o.gpus.kind, MSI_GPUS_ALL);
    msi_options_free(&o);
    o = parsed("-gpus 64");
    assert_true(o.gpus.kind == MSI_GPUS_COUNT && o.gpus.n == 64);
    msi_options_free(&o);
    o = parsed("-gpus 3,0,0");
    assert_true(o.gpus.kind == MSI_GPUS_LIST && o.gpus.n == 3);
    assert_true(o.gpus.device[0] == 3 && o.gpus.device[1] == 0 && o.gpus.device[2] == 0);
    msi_options_free(&o);
}

/* Options of one gridder, or of one direction, are refused for others. */
static void test_gridders(void **state)
{
    (void)state;
    msi_options o = parsed("-gridder wproj -strategy tile -wstack-slices 7 -kernel texture");
    assert_string_equal(o.gridder, "wproj");
    assert_string_equal(o.strategy, "tile");
    assert_int_equal(o.n_slice, 7);
    assert_true(o.kernel == MSI_KERNEL_TEXTURE && o.accuracy == 1e-2);
    msi_options_free(&o);
    o = parsed("-accuracy 1e-3 -strategy window -wstack-slices auto -gridder wproj");
    assert_string_equal(o.strategy, "window");
    assert_true(o.n_slice == 0 && o.accuracy == 1e-3);
    msi_options_free(&o);
    o = parsed("-strategy subgrid");
    assert_string_equal(o.gridder, "wgrid");
    assert_string_equal(o.strategy, "subgrid");
    assert_true(o.accuracy == 1e-4);
    msi_options_free(&o);
    refused_value("-strategy tile", "-strategy tile: -gridder wgrid", "auto, planes, subgrid");
    refused_value("-gridder wproj -strategy planes", "-strategy planes: -gridder wproj", "makes images with");
    refused_value("-gridder wproj -strategy gather", "-strategy gather:", "auto, tile, window");
    refused_value("-strategy fast", "-strategy fast:", "auto|planes|subgrid|tile|window|gather|scatter");
    refused_value("-wstack-slices 4", "-wstack-slices 4:", "-gridder wproj");
    refused_value("-gridder wproj -wstack-slices 0", "-wstack-slices 0:", "1 to 100000");
    refused_value("-gridder wproj -wstack-slices many", "-wstack-slices many:", "number");
    refused_value("-kernel linear", "-kernel:", "-gridder wproj");
    refused_value("-gridder wproj -kernel cubic", "-kernel cubic:", "auto|nearest|linear|texture");
}

static void test_order_and_repeats(void **state)
{
    (void)state;
    msi_options o;
    assert_int_equal(parse(&o, "-size 64 64 -scale 1deg -name a -name b -accuracy 1e-2 -- -odd.ms -size b.ms"), MSI_OK);
    assert_string_equal(o.name, "b");
    assert_int_equal(o.n_ms, 3);
    assert_string_equal(o.ms_paths[0], "-odd.ms");
    msi_options_free(&o);
    refused(NEEDED "a.ms -name b", "-name:", "before the Measurement Sets");
    refused(NEEDED "-name a.ms", "no Measurement Set is given: a.ms was read as an argument of -name", "");
    refused(NEEDED "-make-psf", "no Measurement Set", "after the options");
    refused(NEEDED "a.ms -imsize 64", "-imsize: it comes after a.ms", "before the Measurement Sets");
    refused("clean vis=a.ms", "clean: no such file", "options begin with a dash");
    refused("nosuch.ms", "-size: it is missing", "");
    refused("msin=a.ms msout=.", "msin=a.ms: options begin with a dash", "-tclean");
    refused(NEEDED "~", "2asec is followed by an empty word", "leave it out");
}

static void test_help_and_version(void **state)
{
    (void)state;
    msi_options o;
    assert_int_equal(parse(&o, "-help"), MSI_OK);
    assert_true(o.action == MSI_ACTION_HELP && !o.help_topic);
    msi_options_free(&o);
    assert_int_equal(parse(&o, "--help -size"), MSI_OK);
    assert_string_equal(o.help_topic, "-size");
    msi_options_free(&o);
    assert_int_equal(parse(&o, "-size 64 64 --version -nonsense"), MSI_OK);
    assert_int_equal(o.action, MSI_ACTION_VERSION);
    msi_options_free(&o);
}

static void test_refused_sizes_and_scales(void **state)
{
    (void)state;
    static const char *const sizes[] = {
        "0 0",   "-5 -5",  "1 1",     "255 256",  "256 255",        "8 256",
        "256 0", "256 -2", "1.5 256", "1e-3 1e3", "2147483648 256", "99999999999999999999 256"};
    char line[256];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(line, sizeof line, "-size %s -scale 1asec a.ms", sizes[i]);
        refused(line, "-size ", "");
    }
    refused("-size abc 256 -scale 1asec a.ms", "-size abc:", "whole number");
    refused("-size 1x1 a.ms", "-size 1x1:", "separate words");
    refused("-size 64 64 -scale 1asec -shift 30deg,40deg a.ms",
            "-shift 30deg,40deg: its arguments are separate words; write -shift RA DEC", "");
    refused("-size 256 -scale 1asec a.ms", "-size: an argument is missing before -scale", "-size WIDTH HEIGHT");
    refused("-size 64x64 -scale 1asec a.ms", "-size 64x64: its arguments are separate words", "-size WIDTH HEIGHT");
    refused("-scale 1asec a.ms", "-size:", "2048 2048");
    refused("-size 64 64 a.ms", "-scale:", "2asec");
    refused("-size 64 64 -scale 5 a.ms", "-scale 5 is 5 degrees: 64 pixels span 320 degrees", "; 5asec?");
    refused("-size 1024 1024 -scale 0.5 a.ms", "-scale 0.5 is 0.5 degrees:", "; 0.5asec?");
    refused("-size 64 64 -scale -1asec a.ms", "-scale -1asec:", "larger than 0");
    refused("-size 64 64 -scale 0asec a.ms", "-scale 0asec:", "larger than 0");
    refused("-size 64 64 -scale 1e-400asec a.ms", "-scale 1e-400asec:", "larger than 0");
    refused("-size 64 64 -scale 1000deg a.ms", "-scale:", "half the sky");
    refused("-size 64 64 -scale 5deg a.ms", "-scale:", "320deg");
    msi_options o;
    /* Half the sky in coarse pixels is accepted, and so is a size that only the memory plan refuses. */
    assert_int_equal(parse(&o, "-size 90 90 -scale 2deg a.ms"), MSI_OK);
    msi_options_free(&o);
    assert_int_equal(parse(&o, "-size 1000000000 1000000000 -scale 75asec a.ms"), MSI_OK);
    assert_true(msi_image_n_pixel(&o.geometry) == 1000000000000000000);
    msi_options_free(&o);
}

/* As many images are joined as large surveys do. */
static void test_many_joined(void **state)
{
    (void)state;
    msi_options o = parsed("-niter 9 -pol IQU -join-polarizations -channels-out 96 -join-channels -fit-spectral-pol 3 "
                           "-squared-channel-joining");
    assert_int_equal(o.channels_out, 96);
    msi_options_free(&o);
}

static void test_refused_cleaning(void **state)
{
    (void)state;
    refused_value("-niter -1", "-niter -1:", "from 0 to");
    refused_value("-niter 9 -make-psf-only", "-make-psf-only:", "cannot be used with -niter");
    refused_value("-niter 9 -gridder wproj", "-gridder wproj:", "cannot make the residuals");
    refused_value("-niter 9 -join-channels", "-join-channels:", "give -channels-out");
    refused_value("-niter 9 -join-polarizations", "-join-polarizations:", "several with -pol");
    refused_value("-niter 9 -pol I,XX,XY,YX,YY -join-polarizations", "-join-polarizations:", "5 images");
    refused_value("-niter 9 -pol IQUV -join-polarizations -channels-out 129 -join-channels",
                  "-channels-out 129:", "516");
    refused("-size 65536 64 -scale 1asec -niter 9 a.ms", "-size 65536 64: with -niter", "at most 65534 pixels");
    refused_value("-niter 9 -channels-out 257 -join-channels", "-channels-out 257:", "256 channels");
    refused_value("-niter 9 -channels-out 65 -join-channels -fit-spectral-log-pol 2",
                  "-fit-spectral-log-pol:", "at most 64");
    refused_value("-niter 9 -pol IQ -join-polarizations -no-negative", "-no-negative:", "either sign");
    refused_value("-niter 9 -pol IQ -link-polarizations IV", "-link-polarizations:", "V is not imaged");
    refused_value("-niter 9 -link-polarizations I", "-link-polarizations:", "several with -pol");
    refused_value("-niter 9 -pol IQUV -link-polarizations QU -no-negative", "-no-negative:", "either sign");
    refused_value("-niter 9 -pol IQ -link-polarizations I -auto-multithresh",
                  "-auto-multithresh:", "-link-polarizations out");
    refused_value("-niter 9 -pol IQ -link-polarizations IP", "-link-polarizations IP:", "I Q U V");
    msi_options o;
    assert_int_equal(parse(&o, "-size 64 64 -scale 1asec -niter 9 -pol QIUV -link-polarizations I,V -gain 0.2 a.ms"),
                     MSI_OK);
    assert_true(o.clean.join_pols && msi_clean_options_searched_planes(&o) == 10);
    msi_options_free(&o);
    assert_int_equal(
        parse(&o, "-size 64 64 -scale 1asec -niter 9 -pol QI -link-polarizations I -no-negative -stop-negative a.ms"),
        MSI_OK);
    msi_options_free(&o);
    assert_int_equal(parse(&o, "-size 64 64 -scale 1asec -niter 9 -pol IQ -join-polarizations -stop-negative a.ms"),
                     MSI_OK);
    msi_options_free(&o);
    refused_value("-niter 9 -fit-spectral-pol 2", "-fit-spectral-pol:", "give -join-channels");
    refused_value("-niter 9 -channels-out 2 -join-channels -fit-spectral-log-pol 3",
                  "-fit-spectral-log-pol 3:", "fewer terms");
    refused_value("-niter 9 -channels-out 4 -join-channels -fit-spectral-pol 2 -fit-spectral-log-pol 2",
                  "-fit-spectral-pol and", "one of them");
    refused_value("-niter 9 -multiscale -multiscale-scales 0,8,5000", "-multiscale-scales:", "below half of the image");
    refused_value("-niter 9 -beam-size 1000deg", "-beam-size: a beam of 1000 degrees", "wider than the image");
    refused_value("-niter 9 -beam-shape 1000deg 1 0", "-beam-shape: a beam of 1000 degrees", "wider than the image");
    refused_value("-niter 9 -casa-mask a.mask -fits-mask b.fits", "-casa-mask:", "only one mask");
    refused_value("-niter 9 -mask a.mask -region-mask b.reg", "-mask:", "leave it or -region-mask out");
    refused_value("-niter 9 -horizon-mask 5deg -auto-multithresh", "-auto-multithresh:", "leave -horizon-mask out");
    refused_value("-niter 9 -horizon-mask 91", "-horizon-mask 91:", "-90 to 90 degrees");
    refused_value("-niter 9 -casa-mask a.mask -auto-multithresh", "-auto-multithresh:", "leave -casa-mask out");
    refused_value("-subtract-model -data-column MODEL_DATA", "-subtract-model:", "from itself");
    refused_value("-niter 9 -subtract-model -continue", "-subtract-model:", "-continue also subtracts");
    refused_value("-niter 9 -subtract-model -update-model-required", "-update-model-required:", "would replace");
    assert_int_equal(parse(&o, "-size 64 64 -scale 1asec -niter 9 -threshold 0.5mJy a.ms"), MSI_OK);
    assert_true(fabs(o.clean.threshold_jy - 5e-4) < 1e-18);
    msi_options_free(&o);
    refused_value("-niter 9 -threshold 1K", "-threshold 1K:", "mJy");
    refused_value("-niter 9 -threshold -1mJy", "-threshold -1mJy:", "from 0");
    refused_value("-wtowers-size 3", "-wtowers-size: no such option;", "option; msimage -help lists");
    refused_value("-niter 9 -abs-auto-mask 1mJy -threshold 2mJy",
                  "-abs-auto-mask 0.001:", "smaller than -threshold 0.002");
    refused_value("-niter 9 -auto-mask 3 -auto-threshold 5", "-auto-mask 3:", "smaller than -auto-threshold 5");
    refused_value("-spectral-correction 150e6 0,-0.7", "-spectral-correction 0,-0.7:", "a flux above 0");
    refused_value("-spectral-correction 150e6 1,x", "-spectral-correction 1,x:", "a spectral index");
    refused_value("-spectral-correction x 1", "-spectral-correction x:", "150MHz");
    refused_value("-niter 9 -multiscale-fits-mask a.fits", "-multiscale-fits-mask", "needs -multiscale");
    refused_value("-niter 9 -force-mask-rounds 3", "-force-mask-rounds", "needs -auto-mask");
    refused_value("-niter 9 -multiscale -no-fast-subminor", "-no-fast-subminor:", "cannot be used with -multiscale");
    refused_value("-mgain 0", "-mgain 0:", "0.01 to 1");
    refused_value("-clean-border 50", "-clean-border 50:", "49.9");
    refused_value("-multiscale-scales 8,4", "-multiscale-scales 8,4:", "ascending");
    refused_value("-multiscale-scales 0,8,8", "-multiscale-scales 0,8,8:", "ascending");
    refused_value("-multiscale-scales 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "-multiscale-scales", "at most 15");
    refused_value("-niter 9 -multiscale -multiscale-scales 4,8 -multiscale-rule tclean",
                  "-multiscale-rule tclean:", "begin with 0");
    refused_value("-multiscale-scales 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", "-multiscale-scales", "at most 16");
}

static void test_refused_values(void **state)
{
    (void)state;
    refused_value("-sizes 2 2", "-sizes:", "did you mean -size?");
    refused_value("-acuracy 1e-4", "-acuracy:", "did you mean -accuracy?");
    refused_value("-qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", "-qqq", "no such option");
    refused_value("-field 3C286", "-field 3C286:", "-select-field 3C286");
    refused_value("-weig natural", "-weig:", "did you mean -weight?");
    refused_value("---size 3 3", "---size:", "no such option");
    refused_value("-accuracy 0", "-accuracy 0:", "1e-12 to 0.01");
    refused_value("-accuracy 0.1", "-accuracy 0.1:", "1e-12 to 0.01");
    refused_value("-accuracy nan", "-accuracy nan:", "number");
    refused_value("-accuracy 1e-8 -precision fp32", "-precision fp32:", "fp64 or auto");
    refused_value("-precision double", "-precision double:", "auto|fp32|fp64");
    refused_value("-gridder awproj", "-gridder awproj:", "wgrid|wproj");
    static const char *const no_gpus[] = {"some", "0", "65", "-1", "1,", ",1", "0,64", "0,-1", "0,a", "1,,2"};
    for (size_t i = 0; i < sizeof no_gpus / sizeof *no_gpus; i++) {
        char words[32], begin[32];
        snprintf(words, sizeof words, "-gpus %s", no_gpus[i]);
        snprintf(begin, sizeof begin, "-gpus %s:", no_gpus[i]);
        refused_value(words, begin, "1 to 64, or a list such as 0,2");
    }
    refused_value("-backend cpu -gpus 2", "-gpus:", "-backend cpu");
    refused_value("-backend gpu", "-backend gpu:", "auto|cpu|cuda");
}

static void test_refused_selections(void **state)
{
    (void)state;
    refused_value("-weight robust", "-weight robust:", "write -weight briggs and the robustness");
    refused_value("-weight briggs", "-weight briggs a.ms:", "robustness, a number from -10 to 10");
    refused_value("-weight briggs x", "-weight briggs x:", "number");
    refused_value("-weight briggs 11", "-weight briggs 11:", "-10 to 10");
    refused_value("-weighting-rank-filter 0.5", "-weighting-rank-filter 0.5:", "0 for no limit");
    refused_value("-pol ~", "-pol is followed by an empty word", "write a value");
    refused_value("-pol IX", "-pol IX:", "IQUV");
    refused_value("-pol I,", "-pol I,:", "IQUV");
    refused_value("-pol I,,Q", "-pol I,,Q:", "IQUV");
    refused_value("-pol XX,xx", "-pol XX,xx:", "twice");
    refused_value("-channels-out 0", "-channels-out 0:", "from 1");
    refused_value("-channels-out 9 -channel-range 0 8", "-channels-out 9:", "8 channels");
    refused_value("-intervals-out 3 -interval 5 7", "-intervals-out 3:", "2 time steps");
    refused_value("-channel-range 8 8", "-channel-range 8 8:", "BEGIN < END");
    refused_value("-channel-range -1 8", "-channel-range -1 8:", "BEGIN < END");
    refused_value("-interval 5", "-interval a.ms:", "");
    refused_value("-minuv-l 10 -maxuv-l 10", "-minuv-l 10:", "smaller");
    refused_value("-minuvw-m 10 -maxuvw-m 10", "-minuvw-m 10:", "smaller");
    refused_value("-minuv-l -1", "-minuv-l -1:", "0 to");
    refused_value("-field 1,", "-field 1,:", "or all");
    refused_value("-field -1", "-field -1:", "or all");
    refused_value("-field 4294967296", "-field 4294967296:", "or all");
    refused_value("-spws all", "-spws all:", "0,2");
    refused_value("-shift 126 -43", "-shift 126:", "126deg");
    refused_value("-shift 126deg -93deg", "-shift -93deg:", "the Dec must be");
    refused_value("-shift 126deg", "-shift a.ms:", "Dec");
    refused_value("-shift field x", "-shift x:", "whole");
    refused_value("-shift field -1", "-shift field -1:", "counted from 0");
    refused_value("-taper-gaussian 2asec,", "-taper-gaussian 2asec,:", "20asec,10asec,30deg");
    refused_value("-taper-gaussian 2asec,1asec,0,0", "-taper-gaussian 2asec,1asec,0,0:", "40klambda");
    refused_value("-taper-gaussian 2asec,0", "-taper-gaussian 2asec,0:", "both widths");
    refused_value("-taper-gaussian -4klambda", "-taper-gaussian -4klambda:", "40klambda");
    refused_value("-weight briggsbwtaper 0.5", "-weight briggsbwtaper:", "-channels-out");
    refused_value("-channels-out 2 -weight briggsbwtaper 11", "-weight briggsbwtaper 11:", "from -10 to 10");
    refused_value("-channels-out 2 -weight briggsbwtaper 1 -weighting-rank-filter 3",
                  "-weighting-rank-filter:", "briggsbwtaper");
    refused_value("-taper-tukey 10", "-taper-tukey 10:", "-maxuv-l");
    refused_value("-taper-tukey 10 -maxuv-l 9", "-taper-tukey 10:", "-maxuv-l 9");
    refused_value("-taper-inner-tukey 10 -minuv-l 5 -maxuv-l 14", "-taper-inner-tukey 10:", "beyond -maxuv-l 14");
    refused_value("-taper-edge 5e4 -taper-edge-tukey 2e3", "-taper-edge-tukey 2000:", "51566.2");
    for (int i = 0; i < 5; i++) {
        static const char *const lists[] = {"920e6,870e6", "870e6,870e6", "870e6,", "0,870e6", "870e6,1GHx"};
        char words[96], begin[96];
        snprintf(words, sizeof words, "-channels-out 4 -channel-division-frequencies %s", lists[i]);
        snprintf(begin, sizeof begin, "-channel-division-frequencies %s:", lists[i]);
        refused_value(words, begin, "ascending frequencies");
    }
    refused_value("-channels-out 2 -channel-division-frequencies 870e6,920e6", "-channel-division-frequencies: 2",
                  "-channels-out 3 or more");
    refused_value("-maxw 101", "-maxw 101:", "from 0 to 100");
    refused_value("-name out/", "-name out/:", "out/myimage");
    refused_value("-name .", "-name .:", "./myimage");
    refused_value("-name out/..", "-name out/..:", "out/../myimage");
    refused_value("-name -png", "-name: an argument is missing before -png", "-name PREFIX");
    refused_value("-padding 0.9", "-padding 0.9:", "1 to 4");
    refused_value("-j 0", "-j 0:", "from 1");
    refused_value("-mem 0", "-mem 0:", "0.01 to 100");
    refused_value("-mem 101", "-mem 101:", "0.01 to 100");
    refused_value("-abs-mem -1", "-abs-mem -1:", "0.001");
    refused("-size 64 64 -scale", "-scale: an argument is missing", "-scale ANGLE");
    refused("~", "msimage is followed by an empty word", "");
    refused("", "no Measurement Set", "");
}

/* A run that draws a model needs no set, and takes few options. */
static void test_drawing(void **state)
{
    (void)state;
    const char base[] = "-draw-model list.txt -size 64 32 -scale 0.001 -draw-centre 19h59m28.35s -40d44m2.09s ";
    char words[256];
    msi_options o;
    snprintf(words, sizeof words, "%s-draw-frequencies 150e6 1MHz -draw-spectral-terms 2 -j 4 -name x", base);
    assert_int_equal(parse(&o, words), MSI_OK);
    assert_string_equal(o.draw.list, "list.txt");
    assert_true(o.n_ms == 0 && o.draw.freq_hz == 150e6 && o.draw.bandwidth_hz == 1e6 && o.draw.n_term == 2);
    assert_true(o.draw.has_centre && o.draw.window == 127 && o.geometry.nx == 64);
    assert_true(fabs(o.draw.dec_rad + (40 + 44.0 / 60 + 2.09 / 3600) * MSI_PI / 180) < 1e-12);
    msi_options_free(&o);
    snprintf(words, sizeof words, "%s-draw-frequencies 150e6 1MHz -weight uniform", base);
    refused(words, "-weight: it cannot be used with -draw-model", "leave it out");
    refused(base, "-draw-model: the band is missing", "-draw-frequencies CENTRE WIDTH");
    refused(NEEDED "-sinc-window-size 31 a.ms", "-sinc-window-size: it needs -draw-model", "leave it out");
}

/* Every name of WSClean's table is unique, and msimage has no option of this name. */
static void test_wsclean_table(void **state)
{
    (void)state;
    int n_noted = 0;
    for (int i = 0; i < msi_wsclean_count; i++) {
        const msi_wsclean_option *w = &msi_wsclean_table[i];
        assert_ptr_equal(msi_wsclean_find(w->name), w);
        if (msi_option_find(w->name)) fail_msg("-%s is an option of msimage: remove its row here", w->name);
        n_noted += w->is == MSI_WSCLEAN_ACCEPTED || w->is == MSI_WSCLEAN_MAPPED;
        assert_true(w->n_argument >= 0 && w->n_argument <= 3);
        const int has_reason = w->is == MSI_WSCLEAN_ACCEPTED || w->is == MSI_WSCLEAN_REFUSED;
        if (has_reason != (w->why != NULL) || !w->value != !w->else_why) fail_msg("-%s", w->name);
        if (w->is != MSI_WSCLEAN_MAPPED) continue;
        const msi_option *own = msi_option_find(w->own);
        assert_non_null(own);
        assert_int_equal(msi_option_arity(own, NULL), w->n_argument);
    }
    assert_true(n_noted <= MSI_MAX_WSCLEAN);
    assert_null(msi_wsclean_find("nonsense"));
}

static void test_wsclean_lines(void **state)
{
    (void)state;
    msi_options o = parsed("-reorder --no-update-model-required -use-wgridder -wgridder-accuracy 1e-5 "
                           "-parallel-gridding 4 -nwlayers-for-size 4096 4096 -reorder -grid-mode kb");
    assert_true(o.accuracy == 1e-5 && o.n_ms == 1);
    assert_string_equal(o.ms_paths[0], "a.ms");
    assert_int_equal(o.n_wsclean, 6);
    assert_string_equal(o.wsclean[0]->name, "reorder");
    msi_options_free(&o);
    o = parsed("");
    assert_int_equal(o.n_wsclean, 0);
    msi_options_free(&o);

    o = parsed("-gridder wgridder -gridder tuned-wgridder -gridder wtowers");
    assert_string_equal(o.gridder, "wgrid");
    assert_int_equal(o.n_wsclean, 3);
    assert_string_equal(o.wsclean[1]->value, "tuned-wgridder");
    msi_options_free(&o);
    o = parsed("-scalar-visibilities -model-storage-manager stokes_i -shared-facet-reads");
    assert_int_equal(o.n_wsclean, 2);
    msi_options_free(&o);
    o = parsed("-abs-threshold 2mJy -niter 5 -no-mfs-weighting -dd-psf-grid 3 3 -no-min-grid-resolution -mwa-path /x "
               "-use-differential-lofar-beam -facet-beam-update 120 -baseline-averaging 4 -major-iteration-mode dual");
    assert_true(o.clean.threshold_jy == 2e-3 && !o.mf_weighting && o.n_wsclean == 6 && o.pb.is_differential &&
                o.n_ms == 1 && o.clean.psf_grid[0] == 3 && o.clean.psf_grid[1] == 3);
    msi_options_free(&o);
    refused_value("-dd-psf-grid 3 17", "-dd-psf-grid 3 17:", "from 1 to 16");
    refused_value("-component-optimization linear-solver", "-component-optimization linear-solver:", "-auto-threshold");
    refused_value("-asp", "-asp:", "-multiscale");
    refused_value("-channel-range 0~3 -make-psf", "-channel-range 0~3: its arguments are separate", "BEGIN END");
    refused_value("-gridder mosaic", "-gridder mosaic: tclean's name", "-mosaic joins pointings");
    refused_value("-gridder wproject", "-gridder wproject: tclean's name", "leave -gridder out");
    refused_value("-robust 0", "-robust: no such option", "-weight briggs 0.5");
    refused_value("-gridder direct-ft", "-gridder direct-ft:", "-accuracy 1e-12");

    refused_value("-iuwt", "-iuwt:", "CLEAN is the only method");
    refused_value("-grid-mode nn", "-grid-mode nn:", "-accuracy");
    refused_value("-wgridder-accuracy 1", "-accuracy 1:", "1e-12 to 0.01");
    refused_value("-name -reorder", "-name: an argument is missing before -reorder", "-name PREFIX");
    refused_value("-parallel-gridding -reorder", "-parallel-gridding: an argument is missing before -reorder", "VALUE");
    refused(NEEDED "-nwlayers", "-nwlayers: an argument is missing", "-nwlayers VALUE");
    refused(NEEDED "a.ms -reorder", "-reorder:", "before the Measurement Sets");
}

static void suggests(const char *word, const char *names)
{
    char got[MSI_SUGGESTION_SIZE];
    msi_suggestion(got, word);
    if (strcmp(got, names) != 0) fail_msg("-%s: \"%s\", not \"%s\"", word, got, names);
}

/* Suggestions, also of WSClean's options, share the stem of the misspelt name; names that only look similar are not
 * suggested. */
static void test_suggestions(void **state)
{
    (void)state;
    static const char *const near[][2] = {{"acuracy", "-accuracy"},
                                          {"weig", "-weight"},
                                          {"sizes", "-size"},
                                          {"mgian", "-mgain"},
                                          {"gpu", "-gpus"},
                                          {"makepsf", "-make-psf"},
                                          {"data_column", "-data-column"},
                                          {"datacolumn", "-data-column"},
                                          {"auto-treshold", "-auto-threshold"},
                                          {"maxuv-m", "-maxuvw-m"},
                                          {"no-reoder", "-no-reorder"},
                                          {"intervals", "-intervals-out or -interval"},
                                          {"fit-spectral-pols", "-fit-spectral-pol"},
                                          {"Niter", "-niter"},
                                          /* Words of other programs. */
                                          {"threads", "-j"},
                                          {"iterations", "-niter"},
                                          {"output", "-name"},
                                          /* Parameters of tclean. */
                                          {"antenna", "-select-antenna"},
                                          {"spw", "-select-spw"},
                                          {"perchanweightdensity", "-no-mf-weighting"},
                                          {"startmodel", "-continue"},
                                          {"cell", "-scale"},
                                          {"imagename", "-name"},
                                          {"imsize", "-size"},
                                          {"nchan", "-cube-nchan"},
                                          {"outframe", "-frame"},
                                          {"restfreq", "-rest-frequency"},
                                          {"nsigma", "-auto-threshold"},
                                          {"phasecenter", "-shift"},
                                          {"savemodel", "-update-model-required"},
                                          {"scales", "-multiscale-scales"},
                                          {"stokes", "-pol"},
                                          {"timerange", "-select-time"},
                                          {"uvrange", "-select-uvrange"},
                                          {"uvtaper", "-taper-gaussian"},
                                          {"weighting", "-weight"}};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) suggests(near[i][0], near[i][1]);
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        assert_true(strchr(near[i][1], ' ') || msi_option_find(near[i][1] + 1) || !strcmp(near[i][0], "no-reoder"));
    /* Each is similar to some option by its letters only: -force, -scale, -mem, -png, -size, -field .. */
    static const char *const far[] = {"chores", "scans", "mode", "yield", "x", "", "-"};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) suggests(far[i], "");
    /* Words of CASA give advice. */
    refused_value("-scan 3", "-scan: no such option;", "-select-scan");
    refused_value("-restart", "-restart:", "did you mean -resume?");
    refused_value("--silent", "--silent:", "did you mean -quiet?");
    refused_value("-s 64 64", "-s:", "-size is the size of the image, and -quiet hides the log");
    refused_value("-outname x", "-outname:", "did you mean -name?");
    refused_value("-jpg", "-jpg:", "did you mean -png?");
    refused_value("-jx", "-jx:", "no such option; msimage -help");
    refused_value("-fov 1deg", "-fov:", "-scale the size of a pixel");
    refused_value("-abs-mem 16 GB", "GB:", "-abs-mem takes a number without a unit");
    refused_value("-scale 3 asec", "asec:", "write 3asec");
    refused_value("-usemask user", "-usemask:", "-auto-multithresh");
    refused_value("-specmode cube", "-specmode:", "-cube");
    refused_value("-vis a.ms", "-vis:", "give the Measurement Sets last");
    refused_value("-spws 0:3~10", "-spws 0:3~10:", "-select-spw");
    assert_null(msi_suggestion_advice(MSI_CASA_TCLEAN, "spw"));
    assert_null(msi_suggestion_advice(MSI_CASA_TCLEAN, "nonsense"));
}

static msi_options parsed_predict(const char *line)
{
    msi_options o;
    char text[2048];
    snprintf(text, sizeof text, "-predict %s a.ms", line);
    if (parse(&o, text) != MSI_OK) fail_msg("%s: %s", line, msi_error_get());
    return o;
}

static void refused_predict(const char *words, const char *begin, const char *advice)
{
    char line[1024];
    snprintf(line, sizeof line, "-predict %s a.ms", words);
    refused(line, begin, advice);
}

static void test_predict(void **state)
{
    (void)state;
    msi_options o = parsed("");
    assert_true(!o.predict && !o.force);
    msi_options_free(&o);
    o = parsed_predict("");
    assert_true(o.predict && !o.force && o.predict_op == MSI_MS_WRITE_REPLACE && !o.output_column);
    assert_string_equal(o.model_column, "MODEL_DATA");
    assert_string_equal(o.name, "msimage");
    assert_int_equal(o.model_interpolation, MSI_MODEL_NEAREST);
    msi_options_free(&o);
    o = parsed_predict(
        "-name x/y -model-column SIM -model-interpolation linear -force -accuracy 1e-7 -field all -spws 1 "
        "-channel-range 0 4 -interval 1 2 -taql FIELD_ID<3 -select-antenna 0 -j 3 -abs-mem 1 -dry-run "
        "-padding 2 -precision fp64 -backend cpu -gridder wgrid -temp-dir /tmp -quiet -log-time");
    assert_string_equal(o.model_column, "SIM");
    assert_true(o.force && o.dry_run && o.model_interpolation == MSI_MODEL_LINEAR && o.accuracy == 1e-7);
    msi_options_free(&o);
    o = parsed_predict("-size 64 32 -scale 0.01 -pol IQUV -channels-out 6 -padding 1.4 -interval 2 0");
    assert_true(o.geometry.nx == 64 && o.geometry.ny == 32 && o.n_pol == 4 && o.pol_given && o.channels_out == 6);
    assert_true(o.selection.interval_begin == 2 && o.selection.interval_end == 0);
    char words[64];
    msi_options_selection_words(&o.selection, words, sizeof words);
    assert_string_equal(words, "-field '0' -interval 2 0");
    msi_options_free(&o);
    o = parsed_predict("-predict-op subtract -output-column RESIDUAL");
    assert_true(o.predict_op == MSI_MS_WRITE_SUBTRACT && !o.model_column && !o.selection.data_column);
    assert_string_equal(o.output_column, "RESIDUAL");
    msi_options_free(&o);
    o = parsed_predict("-predict-op add -output-column SUM -data-column DATA");
    assert_int_equal(o.predict_op, MSI_MS_WRITE_ADD);
    assert_string_equal(o.selection.data_column, "DATA");
    msi_options_free(&o);
}

/* Options of one kind of run are refused in the other, even with their default value. */
static void test_predict_refused(void **state)
{
    (void)state;
    static const char *const imaging[] = {
        "-make-psf",       "-make-psf-only", "-intervals-out 1", "-shift 1deg 1deg",
        "-minuv-l 0",      "-maxuv-l 1",     "-minuvw-m 0",      "-maxuvw-m 1",
        "-weight natural", "-mf-weighting",  "-no-mf-weighting", "-taper-gaussian 1amin",
        "-overwrite",      "-png",           "-save-weights",    "-save-uv"};
    for (size_t i = 0; i < sizeof imaging / sizeof *imaging; i++) {
        char begin[40];
        snprintf(begin, sizeof begin, "%.*s:", (int)strcspn(imaging[i], " "), imaging[i]);
        refused_predict(imaging[i], begin, "cannot be used with -predict");
    }
    static const char *const predict[] = {"-predict-op replace", "-output-column X", "-model-interpolation nearest",
                                          "-force"};
    for (size_t i = 0; i < sizeof predict / sizeof *predict; i++) {
        char begin[40];
        snprintf(begin, sizeof begin, "%.*s:", (int)strcspn(predict[i], " "), predict[i]);
        refused_value(predict[i], begin, "needs -predict");
    }
    refused_predict("-predict-op divide", "-predict-op divide:", "replace|add|subtract");
    refused_predict("-predict-op add", "-predict-op add:", "-output-column NAME");
    refused_predict("-predict-op subtract -output-column X -model-column Y", "-model-column Y:", "leave it out");
    refused_predict("-predict-op subtract -output-column X -data-column X", "-output-column X:", "another one");
    refused_predict("-output-column X", "-output-column X:", "-model-column");
    refused_predict("-data-column DATA", "-data-column DATA:", "-model-column");
    refused_predict("-model-interpolation cubic", "-model-interpolation cubic:", "nearest|linear");
    refused_predict("-accuracy 1e-8 -precision fp32", "-precision fp32:", "fp64 or auto");
    refused_predict("-gridder wproj -strategy planes", "-strategy planes:", "predicts with auto, ");
    refused_predict("-strategy gather", "-strategy gather: -gridder wgrid", "auto, planes, subgrid");
}

static void test_command_line_is_quoted(void **state)
{
    (void)state;
    const char *argv[] = {
        "msimage", "-size", "64",     "64",      "-scale", "1deg", "-taql", "ANTENNA1 < 10 && 'x' == 'x'",
        "-name",   "%s%n",  "a b.ms", "$(x).ms", NULL};
    msi_options o;
    assert_int_equal(msi_options_parse(&o, 12, argv), MSI_OK);
    assert_string_equal(o.command_line, "msimage -size 64 64 -scale 1deg -taql 'ANTENNA1 < 10 && '\\''x'\\'' == "
                                        "'\\''x'\\''' -name %s%n 'a b.ms' '$(x).ms'");
    msi_options_free(&o);
}

/* Parse words that the readers accept in part, and random bytes, the same on every run: a failure has one clean
 * line. */
static void test_random_words(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "64",  "64",   "1asec", "-1", "briggs", "0", "I,Q",  "XX",   "08h24m07s", "-42d59m48s",
        "all", "0,1",  "1e-4",  "%n", "",       "-", "--",   "a.ms", "1e309",     "\xff\xfe",
        "nan", "auto", "cpu",   "\n", "h",      ":", "1:2:", "..",   "-0d",       "99999999999999999999"};
    enum { N_PIECE = sizeof pieces / sizeof *pieces, ROUNDS = 200000, WORDS = 12, LONGEST = 24 };
    static char made[WORDS][LONGEST + 1];
    const char *argv[WORDS + 2] = {"msimage"};
    char option[WORDS][40];
    uint64_t random = 88172645463325252u;
    int taken = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int argc = 1;
        for (int i = 0; i < WORDS; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            unsigned pick = (unsigned)(random >> 32) % 16;
            if (pick < 6) {
                snprintf(option[i], sizeof option[i], "%s%s", pick == 0 ? "--" : "-",
                         /* Size and scale, which every run needs, are the first two options; choose them often. */
                         msi_option_at((int)(random % (uint64_t)(pick % 3 ? msi_option_count() : 2)))->name);
                argv[argc++] = option[i];
            } else if (pick < 15) {
                argv[argc++] = pieces[random % N_PIECE];
            } else {
                int length = (int)(random % LONGEST);
                for (int k = 0; k < length; k++) made[i][k] = (char)(1 + (random >> (k % 56)) % 255);
                made[i][length] = 0;
                argv[argc++] = made[i];
            }
        }
        argv[argc] = NULL;
        int shown = (int)(random % WORDS) + 1;
        argv[shown] = NULL;
        msi_options o;
        int rc = msi_options_parse(&o, shown, argv);
        msi_options_free(&o);
        assert_true(rc == MSI_OK || rc == MSI_EUSAGE);
        taken += rc == MSI_OK;
        if (rc != MSI_OK) {
            assert_true(*msi_error_get());
            for (const char *p = msi_error_get(); *p; p++) assert_false((unsigned char)*p < ' ');
        }
    }
    assert_true(taken > 0);
    assert_true(msi_memory_in_use() == 0);
}

/* A failure with a known cause gets a hint, and the options in hints exist. */
static void test_hints(void **state)
{
    (void)state;
    for (int i = 0; i < msi_hint_count; i++) {
        const msi_hint_row *row = &msi_hint_table[i];
        int n_option = 0;
        for (const char *p = row->words; *p; p++) {
            if (*p != '-' || (p > row->words && !strchr(" (", p[-1]))) continue;
            char name[32];
            snprintf(name, sizeof name, "%.*s", (int)strspn(p + 1, "abcdefghijklmnopqrstuvwxyz-"), p + 1);
            if (!msi_option_find(name)) fail_msg("%s: there is no option -%s", row->about, name);
            n_option++;
        }
        assert_true(n_option > 0);
        (void)msi_error_about(msi_error_set(MSI_ERANGE, "it failed"), row->about);
        assert_int_equal(msi_hint_append(MSI_ERANGE), row->is_input ? MSI_EINPUT : MSI_EUSAGE);
        assert_int_equal(strncmp(msi_error_get(), "it failed; ", 11), 0);
        assert_string_equal(msi_error_get() + 11, row->words);
        /* The hint is added only once. */
        assert_int_equal(msi_hint_append(MSI_EINPUT), MSI_EINPUT);
        assert_string_equal(msi_error_get() + 11, row->words);
    }
    static const char *const full[] = {"GPU 1: cudaMallocAsync: out of memory", "GPU: cufftPlan2d: cuFFT error 5"};
    for (int i = 0; i < 2; i++) {
        (void)msi_error_set(MSI_EGPU, "%s", full[i]);
        assert_int_equal(msi_hint_append(msi_hint_append(MSI_EGPU)), MSI_EGPU);
        assert_int_equal(strncmp(msi_error_get(), full[i], strlen(full[i])), 0);
        const char *words = msi_error_get() + strlen(full[i]);
        assert_true(strstr(words, "-gpus") && strstr(words, "-backend"));
        assert_false(strstr(strstr(words, "nvidia-smi") + 1, "nvidia-smi"));
    }
    (void)msi_error_set(MSI_EINPUT, "it failed");
    assert_int_equal(msi_hint_append(MSI_EINPUT), MSI_EINPUT);
    assert_string_equal(msi_error_get(), "it failed");
    assert_int_equal(msi_hint_append(MSI_OK), MSI_OK);
    /* A value out of range comes from the options or the sets; it is not an internal error. */
    (void)msi_error_set(MSI_ERANGE, "it failed");
    assert_int_equal(msi_hint_append(MSI_ERANGE), MSI_EUSAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_image_options),
        cmocka_unit_test(test_units_of_bare_numbers),
        cmocka_unit_test(test_sample_options),
        cmocka_unit_test(test_weight_options),
        cmocka_unit_test(test_like),
        cmocka_unit_test(test_other_options),
        cmocka_unit_test(test_gridders),
        cmocka_unit_test(test_order_and_repeats),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_refused_sizes_and_scales),
        cmocka_unit_test(test_many_joined),
        cmocka_unit_test(test_refused_cleaning),
        cmocka_unit_test(test_refused_values),
        cmocka_unit_test(test_refused_selections),
        cmocka_unit_test(test_drawing),
        cmocka_unit_test(test_wsclean_table),
        cmocka_unit_test(test_wsclean_lines),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_predict),
        cmocka_unit_test(test_predict_refused),
        cmocka_unit_test(test_command_line_is_quoted),
        cmocka_unit_test(test_random_words),
        cmocka_unit_test(test_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
