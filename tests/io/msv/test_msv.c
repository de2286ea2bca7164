/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Visibility stores: what is written is read back, and every changed byte is detected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/status.h"
#include "io/msv/msv_file.h"
#include "io/msv/msv_output.h"
#include "tests/support/temp_folder.h"

enum { N_CHAN = 5, N_CORR = 2, N_SAMPLE = N_CHAN * N_CORR, N_ROW = 7 };

/* ---- CRC-32C ---- */

/* Compute a CRC by its definition: a bit at a time. */
static uint32_t crc_by_bits(const unsigned char *p, int64_t n)
{
    uint32_t crc = 0xffffffffU;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < 8; k++) {
            const uint32_t bit = (crc ^ (uint32_t)p[i] >> k) & 1;
            crc = crc >> 1 ^ (bit ? 0x82f63b78U : 0);
        }
    return ~crc;
}

static void test_crc(void **state)
{
    (void)state;
    unsigned char bytes[256];
    /* RFC 3720, appendix B.4. */
    memset(bytes, 0, 32);
    assert_int_equal(msi_crc32c(bytes, 32), 0x8a9136aaU);
    memset(bytes, 0xff, 32);
    assert_int_equal(msi_crc32c(bytes, 32), 0x62a8ab43U);
    for (int i = 0; i < 32; i++) bytes[i] = (unsigned char)i;
    assert_int_equal(msi_crc32c(bytes, 32), 0x46dd794eU);
    assert_int_equal(msi_crc32c("123456789", 9), 0xe3069283U);
    for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)(i * 37 + i / 7);
    for (int n = 0; n <= 256; n++) assert_int_equal(msi_crc32c(bytes, n), crc_by_bits(bytes, n));
    for (int n = 0; n <= 256; n += MSI_CRC4_UNIT) {
        const msi_crc4 c = msi_crc4_of(bytes, n);
        for (int k = 0; k < 4; k++) assert_int_equal(c.quarter[k], crc_by_bits(bytes + k * n / 4, n / 4));
    }
}

/* ---- A small store ---- */

/* Rows: one is flagged, one is an autocorrelation, one has all samples flagged. */
typedef struct input {
    int64_t row[N_ROW];
    double time_s[N_ROW], uvw_m[N_ROW][3];
    int32_t antenna1[N_ROW], antenna2[N_ROW];
    uint8_t flag_row[N_ROW], flag[N_ROW][N_SAMPLE];
    msi_c32 data[N_ROW][N_SAMPLE];
    float weight[N_ROW][N_SAMPLE];
} input;

enum { FLAGGED = 2, AUTOCORRELATION = 4, EMPTY = 5 };

static void make_input(input *in, int64_t first_row, int step, int has_spectrum)
{
    memset(in, 0, sizeof *in);
    for (int i = 0; i < N_ROW; i++) {
        in->row[i] = first_row + step * i;
        in->time_s[i] = 5e9 + (double)(in->row[i] / 4);
        in->antenna1[i] = i;
        in->antenna2[i] = i + (i != AUTOCORRELATION);
        in->flag_row[i] = i == FLAGGED;
        for (int k = 0; k < 3; k++) in->uvw_m[i][k] = 100.0 * i + k + 1e-9 * (double)first_row;
        for (int k = 0; k < N_SAMPLE; k++) {
            in->data[i][k] = (msi_c32){(float)(i + 0.1 * k), (float)-k};
            in->weight[i][k] = has_spectrum ? (float)(1 + k) : (float)(1 + k % N_CORR);
            in->flag[i][k] = i == EMPTY || (has_spectrum && (i + k) % 3 == 0);
        }
    }
}

static int put(msi_msv_output *out, const input *in, int data_desc_id, int field_id)
{
    const msi_msv_rows rows = {data_desc_id, field_id,    N_ROW,         N_CHAN,       N_CORR,
                               in->row,      in->time_s,  in->uvw_m[0],  in->antenna1, in->antenna2,
                               in->flag_row, in->data[0], in->weight[0], in->flag[0]};
    return msi_msv_output_put(out, &rows);
}

static char path[512], set_path[512];
static const char about[] = "what the rows have in common";

/* Make a store of two setups whose rows alternate, and a second field. */
static void make_store(void)
{
    msi_msv_output *out;
    input in;
    msi_msv_origin origin = {.about = about, .about_bytes = sizeof about, .set_path = set_path};
    snprintf(path, sizeof path, "%s/x.msv", temp_folder);
    snprintf(set_path, sizeof set_path, "%s/x.ms", temp_folder);
    unlink(path);
    msi_set_state(set_path, &origin.set_state);
    assert_int_equal(msi_msv_output_make(&out, path, "x.msv"), MSI_OK);
    make_input(&in, 0, 2, 0);
    assert_int_equal(put(out, &in, 0, 0), MSI_OK);
    make_input(&in, 1, 2, 1);
    assert_int_equal(put(out, &in, 1, 0), MSI_OK);
    make_input(&in, 14, 2, 1);
    assert_int_equal(put(out, &in, 0, 0), MSI_OK);
    make_input(&in, 30, 1, 0);
    assert_int_equal(put(out, &in, 0, 3), MSI_OK);
    assert_int_equal(msi_msv_output_finish(out, &origin), MSI_OK);
    assert_int_equal(msi_msv_output_counts(out).n_row, 4 * N_ROW);
    assert_int_equal(msi_msv_output_counts(out).n_data_row, 4 * (N_ROW - 3));
    msi_msv_output_free(out);
}

/* Compare a row of the store with the input. */
static void check_row(const msi_msv_file *f, const input *in, int i, int data_desc_id, int field_id, int64_t ordinal)
{
    const msi_msv_run *run = msi_msv_file_run(f, in->row[i]);
    assert_non_null(run);
    assert_int_equal(run->data_desc_id, data_desc_id);
    assert_int_equal(run->field_id, field_id);
    assert_int_equal(run->ordinal + (in->row[i] - run->row), ordinal);
    assert_true(f->time_s[run->time] == in->time_s[i]);
    const msi_msv_chunk *c = msi_msv_file_chunk(f, data_desc_id, field_id, ordinal);
    assert_non_null(c);
    msi_msv_layout l;
    assert_int_equal(msi_msv_file_rows(f, c, N_CHAN, N_CORR, &l), MSI_OK);
    assert_int_equal(msi_msv_file_samples(f, c, &l), MSI_OK);
    const char *base = f->map + c->at;
    assert_memory_equal(base + l.uvw_m + 24 * (ordinal - c->ordinal), in->uvw_m[i], 24);
    const int state = (unsigned char)base[l.state + ordinal - c->ordinal];
    assert_int_equal(state, i == FLAGGED ? MSI_MSV_ROW_FLAGGED : i == EMPTY ? MSI_MSV_ROW_EMPTY : MSI_MSV_ROW_DATA);
    if (i == FLAGGED || i == EMPTY || i == AUTOCORRELATION) return;
    const int64_t k = i - (i > FLAGGED) - (i > AUTOCORRELATION) - (i > EMPTY);
    assert_memory_equal(base + l.data + k * N_SAMPLE * 8, in->data[i], sizeof in->data[i]);
    const int n_weight = c->weights == MSI_MSV_WEIGHTS ? N_SAMPLE : N_CORR;
    assert_memory_equal(base + l.weight + k * n_weight * 4, in->weight[i], (size_t)n_weight * 4);
    for (int s = 0; s < N_SAMPLE && c->flags == MSI_MSV_FLAG_BITS; s++)
        assert_int_equal((unsigned char)base[l.flag + k * l.flag_row_bytes + s / 8] >> s % 8 & 1, in->flag[i][s]);
}

static void test_round_trip(void **state)
{
    (void)state;
    msi_msv_file *f;
    input in;
    make_store();
    assert_int_equal(msi_msv_file_open(&f, path), MSI_OK);
    assert_string_equal(f->about, about);
    assert_int_equal(f->header->n_chunk, 4);
    for (int64_t i = 1; i < f->header->n_time; i++) assert_true(f->time_s[i] > f->time_s[i - 1]);
    const struct {
        int64_t first;
        int step, has_spectrum, data_desc_id, field_id;
        int64_t ordinal;
    } puts[] = {{0, 2, 0, 0, 0, 0}, {1, 2, 1, 1, 0, 0}, {14, 2, 1, 0, 0, N_ROW}, {30, 1, 0, 0, 3, 0}};
    for (size_t p = 0; p < sizeof puts / sizeof *puts; p++) {
        make_input(&in, puts[p].first, puts[p].step, puts[p].has_spectrum);
        for (int i = 0; i < N_ROW; i++)
            check_row(f, &in, i, puts[p].data_desc_id, puts[p].field_id, puts[p].ordinal + i);
    }
    const int64_t absent[] = {-1, 15, 28, 29, 37, INT64_MAX};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) assert_null(msi_msv_file_run(f, absent[i]));
    assert_null(msi_msv_file_chunk(f, 0, 0, 2 * N_ROW));
    assert_null(msi_msv_file_chunk(f, 0, 1, 0));
    assert_null(msi_msv_file_chunk(f, 2, 0, 0));
    msi_msv_file_close(f);
}

/* ---- Damage ---- */

/* Open a store and check all of it. Returns the status. */
static int check_all(void)
{
    msi_msv_file *f;
    MSI_TRY(msi_msv_file_open(&f, path));
    int status = MSI_OK;
    for (int64_t i = 0; !status && i < f->header->n_chunk; i++) {
        msi_msv_layout l;
        status = msi_msv_file_rows(f, &f->chunk[i], N_CHAN, N_CORR, &l);
        if (!status) status = msi_msv_file_samples(f, &f->chunk[i], &l);
    }
    msi_msv_file_close(f);
    return status;
}

static void put_byte(int64_t at, unsigned char byte)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fputc(byte, f), byte);
    assert_int_equal(fclose(f), 0);
}

static int64_t file_bytes(unsigned char **bytes)
{
    struct stat s;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &s), 0);
    *bytes = malloc((size_t)s.st_size);
    assert_non_null(*bytes);
    assert_int_equal(fread(*bytes, 1, (size_t)s.st_size, f), s.st_size);
    fclose(f);
    return s.st_size;
}

/* Change every byte of the file: one bit, and all bits. */
static void test_flipped_bytes(void **state)
{
    (void)state;
    unsigned char *bytes;
    make_store();
    const int64_t n = file_bytes(&bytes);
    assert_int_equal(check_all(), MSI_OK);
    for (int64_t i = 0; i < n; i++) {
        const unsigned char changes[] = {(unsigned char)(1 << i % 8), 0xff};
        for (int k = 0; k < 2; k++) {
            put_byte(i, bytes[i] ^ changes[k]);
            assert_int_equal(check_all(), MSI_EINPUT);
            assert_non_null(strstr(msi_error_get(), i < 8 ? "first bytes are damaged" : "damaged: "));
        }
        put_byte(i, bytes[i]);
    }
    assert_int_equal(check_all(), MSI_OK);
    free(bytes);
}

static void test_cut_and_grown(void **state)
{
    (void)state;
    unsigned char *bytes;
    make_store();
    const int64_t n = file_bytes(&bytes);
    free(bytes);
    assert_int_equal(truncate(path, n + 1), 0);
    assert_int_equal(check_all(), MSI_EINPUT);
    for (int64_t left = n - 1; left >= 0; left -= left > 100 ? 97 : 1) {
        assert_int_equal(truncate(path, left), 0);
        assert_int_equal(check_all(), MSI_EINPUT);
    }
}

/* Write a header with a valid CRC. */
static void put_header(const msi_msv_header *changed)
{
    msi_msv_header h = *changed;
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    h.crc = msi_crc32c(&h, offsetof(msi_msv_header, crc));
    assert_int_equal(fwrite(&h, sizeof h, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static void test_other_headers(void **state)
{
    (void)state;
    msi_msv_header good, h;
    make_store();
    assert_int_equal(msi_msv_header_read(path, &good), MSI_OK);
    h = good;
    h.version = 2;
    put_header(&h);
    assert_int_equal(check_all(), MSI_EINPUT);
    assert_non_null(strstr(msi_error_get(), "of version 2; this program reads version 1"));
    const int64_t odd[] = {-1, 0, 1, 63, 64, 4096, INT64_MAX, INT64_MIN, INT64_MAX - 63, (int64_t)1 << 60};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        for (int k = 0; k < 7; k++) {
            h = good;
            int64_t *members[] = {&h.file_bytes, &h.index_at, &h.index_bytes, &h.about_bytes,
                                  &h.n_time,     &h.n_run,    &h.n_chunk};
            /* about_bytes up to 64 gives the same layout. Only the reader of the metadata checks it. */
            if (*members[k] == odd[i] || (members[k] == &h.about_bytes && odd[i] > 0 && odd[i] <= 64)) continue;
            *members[k] = odd[i];
            put_header(&h);
            assert_int_equal(check_all(), MSI_EINPUT);
            /* A wrong place of the index is an error of the header. */
            if (k == 1 || k == 2) assert_non_null(strstr(msi_error_get(), "its header (bytes 0 to"));
        }
    put_header(&good);
    assert_int_equal(check_all(), MSI_OK);
}

/* ---- Whether the set has changed ---- */

static void put_file(const char *name, const char *text)
{
    char file[1024];
    snprintf(file, sizeof file, "%s/%s", set_path, name);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int has_changed(void)
{
    msi_msv_header h;
    assert_int_equal(msi_msv_header_read(path, &h), MSI_OK);
    return msi_msv_set_changed(&h);
}

static void test_age(void **state)
{
    (void)state;
    char folder[1024];
    make_store();
    assert_int_equal(has_changed(), 0); /* no such set */
    mkdir(set_path, 0777);
    snprintf(folder, sizeof folder, "%s/FIELD", set_path);
    mkdir(folder, 0777);
    snprintf(folder, sizeof folder, "%s/HISTORY", set_path);
    mkdir(folder, 0777);
    put_file("table.dat", "a");
    put_file("FIELD/table.f0", "b");
    make_store();
    assert_int_equal(has_changed(), 0);
    put_file("table.lock", "x");
    put_file("HISTORY/table.f0", "x");
    assert_int_equal(has_changed(), 0);
    put_file("FIELD/table.f0", "bb");
    assert_int_equal(has_changed(), 1);
    make_store();
    assert_int_equal(has_changed(), 0);
    put_file("table.f1", "");
    assert_int_equal(has_changed(), 1);
}

static void test_output_failures(void **state)
{
    (void)state;
    msi_msv_output *out;
    char odd[600];
    make_store();
    assert_int_equal(msi_msv_output_make(&out, path, "x.msv"), MSI_EOUTPUT); /* the file exists */
    snprintf(odd, sizeof odd, "%s/none/x.msv", temp_folder);
    assert_int_equal(msi_msv_output_make(&out, odd, "x.msv"), MSI_EOUTPUT);
    assert_string_equal(msi_error_get(), "x.msv: No such file or directory");
    snprintf(odd, sizeof odd, "%s/empty.msv", temp_folder);
    const msi_msv_origin origin = {about, sizeof about, "x.ms", 0};
    assert_int_equal(msi_msv_output_make(&out, odd, "x.msv"), MSI_OK);
    assert_int_equal(msi_msv_output_finish(out, &origin), MSI_EINPUT);
    msi_msv_output_free(out);
    assert_int_equal(msi_msv_is_store(odd), 0);
    assert_int_equal(msi_msv_is_store(path), 1);
    assert_int_equal(msi_msv_is_store(temp_folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_crc),
                                       cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_flipped_bytes),
                                       cmocka_unit_test(test_cut_and_grown),
                                       cmocka_unit_test(test_other_headers),
                                       cmocka_unit_test(test_output_failures),
                                       cmocka_unit_test(test_age)};
    return cmocka_run_group_tests(tests, temp_folder_setup, temp_folder_teardown);
}
