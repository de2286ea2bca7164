/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whole runs, from the words of the command line to the files. Each call that can fail is made to fail in one run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <dirent.h>
#include <malloc.h>
#include <omp.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/run/runs.h"
#include "src/options/options.h"
#include "testdata/makems.h"
#include "tests/support/failure_injection.h"
#include "tests/support/temp_folder.h"

static const char NO_MESSAGE[] = "no message was set";

/* A file of the directory `out`. Parts that describe the run and not its result are blanked. */
typedef struct product {
    char name[64];
    char *bytes;
    size_t size;
} product;

/* Each call fails alone. Runs in which all later calls fail too differ only in their cleanup, so only one in this many
 * is made. */
enum { STRIDE = 5, MAX_PRODUCT = 32 };

static int by_name(const void *a, const void *b)
{
    return strcmp(((const product *)a)->name, ((const product *)b)->name);
}

/* Blank the cards with the time and the command line of an image, and leave out the seconds of cycles. */
static void blank(product *p)
{
    for (size_t i = 0; i + 80 <= p->size && i < 28800; i += 80)
        if (memcmp(p->bytes + i, "DATE    =", 9) == 0 || memcmp(p->bytes + i, "HISTORY ", 8) == 0)
            memset(p->bytes + i, ' ', 80);
    if (!strstr(p->name, ".csv")) return;
    size_t n = 0;
    int column = 0;
    for (size_t i = 0; i < p->size; i++) {
        column = p->bytes[i] == '\n' ? 0 : column + (p->bytes[i] == ',');
        if (column != 6 || p->bytes[i] == ',') p->bytes[n++] = p->bytes[i];
    }
    p->size = n;
}

static void read_product(product *p, const char *name)
{
    snprintf(p->name, sizeof p->name, "%s", name);
    char path[300];
    snprintf(path, sizeof path, "out/%s", name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    p->size = (size_t)ftell(f);
    rewind(f);
    p->bytes = malloc(p->size + 1);
    assert_non_null(p->bytes);
    assert_int_equal(fread(p->bytes, 1, p->size, f), p->size);
    fclose(f);
    blank(p);
}

static int read_products(product *p)
{
    int n = 0;
    DIR *d = opendir("out");
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        assert_true(n < MAX_PRODUCT);
        read_product(&p[n++], e->d_name);
    }
    closedir(d);
    qsort(p, (size_t)n, sizeof *p, by_name);
    return n;
}

static void forget_products(product *p, int n)
{
    for (int i = 0; i < n; i++) free(p[i].bytes);
}

static void empty_out(void)
{
    fixture_remove("out");
    assert_int_equal(mkdir("out", 0777), 0);
}

/* Run the stages as main does. */
static int run(const char *const *words)
{
    int n = 0;
    while (words[n]) n++;
    msi_options options;
    int rc = msi_options_parse(&options, n, words);
    if (!rc) {
        msi_log_setup(MSI_LOG_QUIET, 0);
        msi_memory_limit_set(options.memory_limit_bytes);
        omp_set_num_threads(options.n_threads);
        rc = msi_run_image(&options, NULL, NULL);
    }
    msi_options_free(&options);
    return rc;
}

/* Return the name of the function that failed first, for messages. */
static const char *culprit(void)
{
    return failure_first() ? failure_first() : "nothing";
}

static void check_failure(int rc, int64_t n)
{
    const char *function = culprit();
    int file = strcmp(function, "mkostemp64") == 0 || strcmp(function, "posix_fallocate64") == 0;
    /* A mapping is either memory or the file of the store. */
    int either = strcmp(function, "mmap64") == 0;
    /* A reader process that is refused memory that is available reports a damaged set. */
    if (failure_first() && rc == MSI_EINPUT && strstr(msi_error_get(), "more memory than a set of its size"))
        rc = MSI_ENOMEM;
    if (!failure_first() || (!(rc == MSI_ENOMEM && !file) && !(rc == MSI_EOUTPUT && (file || either))))
        fail_msg("call %lld: %s failed: status %d: %s", (long long)n, function, rc, msi_error_get());
    if (strcmp(msi_error_get(), NO_MESSAGE) == 0) fail_msg("call %lld: %s failed, no message", (long long)n, function);
}

static int64_t n_lost_picture;

/* A run that went on made all files, except a picture that could not be drawn. */
static void check_products(const product *truth, int n_truth, int64_t n)
{
    product p[MAX_PRODUCT];
    int n_product = read_products(p), i = 0;
    for (int k = 0; k < n_truth; k++) {
        const int is_there = i < n_product && strcmp(p[i].name, truth[k].name) == 0;
        if (!is_there && (n == 0 || !strstr(truth[k].name, ".png")))
            fail_msg("call %lld: %s failed, and out/%s is missing", (long long)n, culprit(), truth[k].name);
        n_lost_picture += !is_there;
        if (!is_there) continue;
        if (p[i].size != truth[k].size || memcmp(p[i].bytes, truth[k].bytes, p[i].size) != 0)
            fail_msg("call %lld: %s failed, and out/%s is another", (long long)n, culprit(), p[i].name);
        i++;
    }
    assert_int_equal(i, n_product);
    forget_products(p, n_product);
}

/* A failed run leaves nothing, or only a checkpoint, from which the next run makes the same images. */
static void check_left(const char *const *words, const product *truth, int n_truth, int64_t n)
{
    enum { MOST_WORD = 64 };
    const int n_left = temp_folder_n_file("out");
    if (!n_left) return;
    if (n_left > 1 || access("out/image.clean", F_OK) != 0)
        fail_msg("call %lld: %s failed, and %d files are left", (long long)n, culprit(), n_left);
    const char *again[MOST_WORD] = {words[0], "-resume"};
    for (int i = 1; words[i]; i++) {
        assert_true(i + 2 < MOST_WORD);
        again[i + 1] = words[i];
    }
    if (run(again)) fail_msg("call %lld: %s failed, and -resume: %s", (long long)n, culprit(), msi_error_get());
    check_products(truth, n_truth, n);
}

/* Paths of calls that failed in this run or in one before; those of the same stages are the same in all runs. */
enum { MOST_CALLS = 1 << 14, SPREAD = 8 };
static uint64_t tried[MOST_CALLS];
static int64_t n_tried;

typedef struct chosen_call {
    uint64_t path;
    int64_t n; /* of the calls of this path */
} chosen_call;

static int64_t n_of(const uint64_t *path, int64_t n, uint64_t which)
{
    int64_t has = 0;
    for (int64_t i = 0; i < n; i++) has += path[i] == which;
    return has;
}

/* Choose the calls of a traced run that are to fail: the first and the last of each new path, and one in SPREAD of the
 * others. */
static int64_t choose_calls(int64_t n_call, chosen_call *chosen)
{
    static uint64_t path[MOST_CALLS];
    const int64_t n_before_run = n_tried;
    int64_t n_chosen = 0, n_other = 0;
    assert_true(n_call <= MOST_CALLS);
    for (int64_t i = 0; i < n_call; i++) path[i] = failure_path(i + 1);
    for (int64_t i = 0; i < n_call; i++) {
        const int64_t n_before = n_of(path, i, path[i]);
        const int is_new = n_of(tried, n_before_run, path[i]) == 0;
        const int is_last = n_of(path + i + 1, n_call - i - 1, path[i]) == 0;
        if (!(is_new && (n_before == 0 || is_last)) && ++n_other % SPREAD) continue;
        chosen[n_chosen++] = (chosen_call){path[i], n_before + 1};
        assert_true(n_tried < MOST_CALLS);
        tried[n_tried++] = path[i];
    }
    return n_chosen;
}

static FAILURE_CALLER void check_all(const char *const *words)
{
    static chosen_call chosen[MOST_CALLS];
    product truth[MAX_PRODUCT];
    empty_out();
    if (run(words)) fail_msg("%s", msi_error_get());
    int n_truth = read_products(truth);
    /* The second run uses memory that libraries keep for the life of the process. */
    empty_out();
    failure_trace();
    if (run(words)) fail_msg("%s", msi_error_get());
    const int64_t n_call = failure_disarm(), n_chosen = choose_calls(n_call, chosen), in_use = msi_memory_in_use();
    const int n_open = temp_folder_n_open();
    int64_t n_failed = 0, n_survived = 0, n_missed = 0;
    check_products(truth, n_truth, 0);
    for (int mode = FAILURE_ONCE; mode <= FAILURE_FROM; mode++)
        for (int64_t i = 0; i < n_chosen; i += mode == FAILURE_ONCE ? 1 : STRIDE) {
            empty_out();
            (void)msi_error_set(MSI_OK, NO_MESSAGE);
            failure_arm_path(chosen[i].path, chosen[i].n, (failure_mode)mode);
            const int rc = run(words);
            failure_disarm();
            if (rc)
                check_failure(rc, i);
            else
                check_products(truth, n_truth, i);
            if (rc) check_left(words, truth, n_truth, i);
            assert_int_equal(msi_memory_in_use(), in_use);
            assert_int_equal(temp_folder_n_open(), n_open);
            *(rc ? &n_failed : failure_first() ? &n_survived : &n_missed) += 1;
        }
    printf("  %s ..: %lld calls, %d files; %lld failures, %lld survived, %lld calls not made again\n", words[1],
           (long long)n_call, n_truth, (long long)n_failed, (long long)n_survived, (long long)n_missed);
    /* Readers, gridder and writers work in parallel, so the number of calls differs slightly between runs. */
    assert_true(n_missed <= n_chosen / 8);
    assert_true(n_failed > n_chosen / 2);
    forget_products(truth, n_truth);
}

static void test_run(void **state)
{
    check_all(*state);
}

/* Image channels and planes with all kinds of selections. */
static const char *const images[] = {
    "msimage",  "-size",  "32",    "24",           "-scale",        "20asec",        "-accuracy", "1e-2",
    "-j",       "1",      "-name", "out/image",    "-weight",       "briggs",        "0",         "-taper-gaussian",
    "3amin",    "-pol",   "I",     "-make-psf",    "-save-weights", "-channels-out", "2",         "-shift",
    "1.001rad", "0.6rad", "-taql", "ANTENNA1 < 5", "-select-spw",   "0:1~3,1",       "set.ms",    NULL};

/* Image intervals in fp64, with more visibilities than the memory holds. The image needs as much memory as a reader's
 * block, or that would be refused first. */
static const char *const spilled[] = {
    "msimage", "-size", "640",      "640",       "-scale",    "20asec",  "-accuracy",      "1e-8",
    "-j",      "1",     "-name",    "out/image", "-weight",   "uniform", "-intervals-out", "2",
    "-field",  "all",   "-abs-mem", "0.0354",    "-temp-dir", ".",       "set.ms",         NULL};

/* Use densities of each channel, and draw pictures. */
static const char *const pictures[] = {
    "msimage", "-size",     "16",      "16",      "-scale",           "20asec",   "-accuracy", "1e-2",   "-j", "2",
    "-name",   "out/image", "-weight", "uniform", "-no-mf-weighting", "-save-uv", "-png",      "set.ms", NULL};

/* Run two major cycles, each with a checkpoint. */
static const char *const cleaned[] = {"msimage",     "-size", "16",        "16",     "-scale",      "20asec",
                                      "-accuracy",   "1e-2",  "-j",        "1",      "-name",       "out/image",
                                      "-niter",      "20",    "-nmiter",   "2",      "-checkpoint", "0",
                                      "-select-spw", "0",     "-no-dirty", "set.ms", NULL};

static void test_what_was_called(void **state)
{
    (void)state;
    static const char *const functions[] = {"malloc",
                                            "calloc",
                                            "realloc",
                                            "aligned_alloc",
                                            "strdup",
                                            "strndup",
                                            "mkostemp64",
                                            "posix_fallocate64",
                                            "mmap64",
                                            "pthread_create",
                                            "fftwf_plan_many_dft",
                                            "fftw_plan_many_dft",
                                            "fftw_plan_dft_2d"};
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!failure_seen(functions[i])) fail_msg("%s was never called", functions[i]);
    assert_true(n_lost_picture > 0);
}

static int make_set(void **state)
{
    if (temp_folder_enter(state)) return -1;
    msi_layout layout;
    if (msi_layout_vla(&layout, 'D')) return -1;
    layout.n_station = 7;
    const msi_makems_spw spw[] = {{4, 1e9, 1e6, 2, {MSI_POL_XX, MSI_POL_YY}},
                                  {3, 1.1e9, -1e6, 2, {MSI_POL_XX, MSI_POL_YY}}};
    const msi_makems_field field = {.name = "field", .ra_rad = 1, .dec_rad = 0.6};
    const msi_makems_source source = {.ra_rad = 1.001, .dec_rad = 0.601, .stokes_jy = {1, 0.1, 0, 0}};
    const msi_makems_spec spec = {.layout = &layout,
                                  .n_field = 1,
                                  .field = &field,
                                  .n_spw = 2,
                                  .spw = spw,
                                  .n_source = 1,
                                  .source = &source,
                                  .integration_s = 10,
                                  .n_time = 2,
                                  .weight_spectrum = MSI_MAKEMS_SPECTRUM_PARTLY};
    int rc = msi_makems_write("set.ms", &spec);
    if (rc) printf("%s\n", msi_error_get());
    msi_layout_free(&layout);
    return rc;
}

int main(void)
{
    const struct CMUnitTest tests[] = {{"images", test_run, NULL, NULL, (void *)images},
                                       {"spilled", test_run, NULL, NULL, (void *)spilled},
                                       {"pictures", test_run, NULL, NULL, (void *)pictures},
                                       {"cleaned", test_run, NULL, NULL, (void *)cleaned},
                                       cmocka_unit_test(test_what_was_called)};
    /* glibc before 2.38 does not reuse freed aligned memory, so that the heap grows with each run, and each fork takes
     * longer. Blocks from this size on are mapped instead. */
    mallopt(M_MMAP_THRESHOLD, 1 << 15);
    /* Thousands of runs sync their files. */
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
    return cmocka_run_group_tests(tests, make_set, temp_folder_leave);
}
