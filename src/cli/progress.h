/* Progress of a transfer on standard error: one line that is redrawn on a terminal, a calm line every ten
 * seconds elsewhere, nothing when asked so. One thread draws; any thread reports. Thread-safe. */
#pragma once

#include <glib.h>

typedef enum { PROGRESS_OFF, PROGRESS_LINES, PROGRESS_BAR } ProgressStyle;

typedef struct Progress Progress;

/* BAR when standard error is a terminal that can redraw a line, OFF with `quiet`. */
ProgressStyle progress_style (gboolean quiet);

/* `verb` is what is going on: "pushing". Starts drawing at once; progress_free ends it and leaves a clear
 * line behind. */
Progress *progress_new (ProgressStyle style, const char *verb);
void progress_free (Progress *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Progress, progress_free)

/* How much there is to do in all; what was done so far no longer counts. */
void progress_plan (Progress *self, guint64 total_bytes, guint n_files);
/* The file that is worked on now, copied; NULL: none in particular. */
void progress_file (Progress *self, const char *path);
void progress_file_done (Progress *self);
void progress_add (Progress *self, guint64 n_bytes);

/* What one frame shows. */
typedef struct {
  const char *verb, *file; /* file may be NULL */
  guint64 done_bytes, total_bytes;
  guint n_files, n_done_files;
  double bytes_per_second;
} ProgressView;

/* One line without end, at most `width` columns. Pure; caller frees. */
char *progress_format_bar (const ProgressView *view, guint width);
/* The calm form. */
char *progress_format_line (const ProgressView *view);
