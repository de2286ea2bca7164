/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/progress.h"

#include <stddef.h>
#include <unistd.h>

#include "core/log.h"

static struct {
    const char *stage; /* NULL: none */
    msi_progress_share share;
    int on_terminal;
    double started_s, drawn_s, fraction;
    int last_tenth;
    void (*hear)(void *of, const char *stage, double fraction);
    void *of;
} state;

static _Thread_local int is_hushed;

/* Show the stage as far as it is; a bar goes with its stage. */
static void show(double now_s, int is_over)
{
    const double elapsed_s = now_s - state.started_s, f = state.fraction;
    const double left_s = f > 0 ? elapsed_s * (1 - f) / f : -1;
    if (state.on_terminal) {
        if (is_over)
            msi_log_bar_end();
        else if (f == 0 || now_s - state.drawn_s >= 0.1)
            msi_log_bar(state.stage, f, left_s);
        else
            return;
        state.drawn_s = now_s;
        return;
    }
    const int tenth = (int)(f * 10 + 1e-9);
    if (is_over || tenth == 10 || tenth <= state.last_tenth || elapsed_s <= 5) return;
    state.last_tenth = tenth;
    msi_log_info("%s: %d %%, ETA %.0f s", state.stage, tenth * 10, left_s);
}

static void hear(void)
{
    if (state.hear) state.hear(state.of, state.stage, state.fraction);
}

void msi_progress_begin(const char *stage)
{
    if (is_hushed) return;
    state.stage = stage;
    state.share = (msi_progress_share){0, 1};
    state.on_terminal = !msi_log_is_timed() && isatty(STDERR_FILENO);
    state.started_s = msi_wall_s();
    state.fraction = 0;
    state.last_tenth = 0;
    hear();
    show(state.started_s, 0);
}

void msi_progress_end(void)
{
    if (is_hushed || !state.stage) return;
    state.fraction = 1;
    hear();
    show(msi_wall_s(), 1);
    state.stage = NULL;
}

static void advance(double fraction)
{
    if (fraction > 1) fraction = 1;
    if (!(fraction > state.fraction)) return;
    state.fraction = fraction;
    hear();
    show(msi_wall_s(), 0);
}

void msi_progress_at(int64_t done, int64_t total)
{
    if (is_hushed || !state.stage || total <= 0) return;
    advance(state.share.begin + (state.share.end - state.share.begin) * (double)done / (double)total);
}

msi_progress_share msi_progress_enter(int64_t first, int64_t end, int64_t total)
{
    const msi_progress_share before = state.share;
    if (is_hushed || !state.stage || total <= 0) return before;
    const double length = (before.end - before.begin) / (double)total;
    if (end > total) end = total;
    state.share = (msi_progress_share){before.begin + length * (double)first, before.begin + length * (double)end};
    advance(state.share.begin);
    return before;
}

void msi_progress_leave(msi_progress_share before)
{
    if (is_hushed || !state.stage) return;
    advance(state.share.end);
    state.share = before;
}

void msi_progress_hush(int hushed)
{
    is_hushed = hushed;
}

void msi_progress_listen(void (*hear_step)(void *of, const char *stage, double fraction), void *of)
{
    state.hear = hear_step;
    state.of = of;
}
