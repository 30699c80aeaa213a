#include "cli/progress.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

#define FRAME_US (G_USEC_PER_SEC / 10)
#define LINE_US (10 * G_USEC_PER_SEC)
#define RATE_SECONDS 3.0 /* over which the rate is smoothed */
#define DEFAULT_COLUMNS 80
#define MIN_BAR_COLUMNS 10
#define MAX_BAR_COLUMNS 30
#define CLEAR_TO_END "\033[K"

struct Progress {
  ProgressStyle style;
  char *verb;
  GMutex lock;
  GCond changed;
  gboolean ending;
  char *file;
  guint64 done_bytes, total_bytes;
  guint n_files, n_done_files;
  GThread *thread;
};

ProgressStyle
progress_style (gboolean quiet)
{
  const char *term = g_getenv ("TERM");
  if (quiet)
    return PROGRESS_OFF;
  gboolean redraws = isatty (STDERR_FILENO) && term != NULL && *term != '\0' && strcmp (term, "dumb") != 0;
  return redraws ? PROGRESS_BAR : PROGRESS_LINES;
}

static guint
terminal_columns (void)
{
  struct winsize size;
  if (ioctl (STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return DEFAULT_COLUMNS;
}

static void
emit (const char *text)
{
  if (write (STDERR_FILENO, text, strlen (text)) < 0)
    {
      /* Nobody looks any more; the work goes on. */
    }
}

/* "0:07", "1:02:03", "--:--" when it cannot be told. */
static char *
format_time_left (const ProgressView *view)
{
  if (view->bytes_per_second < 1 || view->done_bytes > view->total_bytes)
    return g_strdup ("--:--");
  double seconds = (double) (view->total_bytes - view->done_bytes) / view->bytes_per_second + 0.5;
  if (seconds >= 100 * 3600)
    return g_strdup ("--:--");
  guint whole = (guint) seconds;
  if (whole >= 3600)
    return g_strdup_printf ("%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
  return g_strdup_printf ("%u:%02u", whole / 60, whole % 60);
}

static guint
percent (const ProgressView *view)
{
  if (view->total_bytes == 0)
    return 100;
  return (guint) MIN (100.0, 100.0 * (double) view->done_bytes / (double) view->total_bytes);
}

/* The end of a path says most: cut at the front, to `width` columns. */
static char *
shorten (const char *path, guint width)
{
  g_autofree char *valid = g_utf8_make_valid (path, -1);
  glong length = g_utf8_strlen (valid, -1);
  for (char *c = valid; *c != '\0'; c++)
    if (g_ascii_iscntrl (*c))
      *c = '?';
  if (length <= (glong) width)
    return g_steal_pointer (&valid);
  if (width < 4)
    return g_strdup ("");
  return g_strdup_printf ("...%s", g_utf8_offset_to_pointer (valid, length - (glong) width + 3));
}

/* " [====>    ]" */
static void
append_bar (GString *line, const ProgressView *view, guint columns)
{
  guint filled = percent (view) * columns / 100;
  g_string_append (line, " [");
  for (guint i = 0; i < columns; i++)
    g_string_append_c (line, i < filled ? '=' : i == filled ? '>' : ' ');
  g_string_append_c (line, ']');
}

/* " 45% 40.9 MB/90.9 MB 12.0 MB/s 0:04", or as much of it as `width` columns hold. */
static char *
format_numbers (const ProgressView *view, guint width)
{
  g_autofree char *done = text_bytes (view->done_bytes), *total = text_bytes (view->total_bytes);
  g_autofree char *rate = text_bytes ((guint64) view->bytes_per_second), *left = format_time_left (view);
  g_autofree char *amount = g_strdup_printf (" %s/%s", done, total), *speed = g_strdup_printf (" %s/s", rate);
  g_autofree char *time = g_strdup_printf (" %s", left);
  const char *const forms[][3] = { { amount, speed, time }, { speed, time, "" }, { speed, "", "" }, { "", "", "" } };
  for (gsize i = 0;; i++)
    {
      char *numbers = g_strdup_printf (" %3u%%%s%s%s", percent (view), forms[i][0], forms[i][1], forms[i][2]);
      if (strlen (numbers) <= width || i + 1 == G_N_ELEMENTS (forms))
        return numbers;
      g_free (numbers);
    }
}

/* " 3/11": which file of how many. */
static char *
format_count (const ProgressView *view)
{
  if (view->n_files < 2)
    return g_strdup ("");
  return g_strdup_printf (" %u/%u", MIN (view->n_done_files + 1, view->n_files), view->n_files);
}

char *
progress_format_bar (const ProgressView *view, guint width)
{
  GString *line = g_string_new (view->verb);
  g_autofree char *numbers = format_numbers (view, width > line->len ? width - (guint) line->len : 0);
  g_autofree char *count = format_count (view);
  guint used = (guint) (line->len + strlen (numbers) + strlen (count));
  guint wanted_file = view->file != NULL ? (guint) g_utf8_strlen (view->file, -1) + 1 : 0;
  guint spare = width > used + 3 ? width - used - 3 : 0;
  guint columns = spare > wanted_file ? MIN (spare - wanted_file, MAX_BAR_COLUMNS) : 0;
  columns = MAX (columns, MIN (spare, MIN_BAR_COLUMNS));
  if (columns >= MIN_BAR_COLUMNS)
    append_bar (line, view, columns);
  g_string_append (line, numbers);
  if (line->len + strlen (count) <= width)
    g_string_append (line, count);
  guint length = (guint) line->len;
  if (view->file != NULL && width > length + 5)
    {
      g_autofree char *file = shorten (view->file, width - length - 1);
      g_string_append_printf (line, " %s", file);
    }
  if (length > width)
    g_string_truncate (line, width);
  return g_string_free (line, FALSE);
}

char *
progress_format_line (const ProgressView *view)
{
  g_autofree char *done = text_bytes (view->done_bytes), *total = text_bytes (view->total_bytes);
  g_autofree char *rate = text_bytes ((guint64) view->bytes_per_second), *left = format_time_left (view);
  return g_strdup_printf ("%s: %u%%, %s of %s, %s/s, %s left", view->verb, percent (view), done, total, rate, left);
}

static ProgressView
view_locked (Progress *self, double rate)
{
  return (ProgressView){
    .verb = self->verb,
    .file = self->file,
    .done_bytes = self->done_bytes,
    .total_bytes = MAX (self->total_bytes, self->done_bytes),
    .n_files = self->n_files,
    .n_done_files = self->n_done_files,
    .bytes_per_second = rate,
  };
}

static void
draw_locked (Progress *self, double rate)
{
  ProgressView view = view_locked (self, rate);
  if (self->total_bytes == 0)
    return;
  g_autofree char *body = self->style == PROGRESS_BAR ? progress_format_bar (&view, terminal_columns () - 1)
                                                      : progress_format_line (&view);
  /* One write a frame: nothing flickers. */
  g_autofree char *frame = self->style == PROGRESS_BAR ? g_strdup_printf ("\r%s" CLEAR_TO_END, body)
                                                       : g_strdup_printf ("%s\n", body);
  emit (frame);
}

/* Bytes a second, old measurements fading away. */
typedef struct {
  gint64 last_us;
  guint64 last_bytes;
  double rate;
  gboolean started;
} Meter;

static void
meter_update (Meter *self, gint64 now_us, guint64 bytes)
{
  double seconds = (double) (now_us - self->last_us) / G_USEC_PER_SEC;
  if (seconds <= 0)
    return;
  /* A new plan starts the count over. */
  double present = bytes >= self->last_bytes ? (double) (bytes - self->last_bytes) / seconds : 0;
  double weight = self->started ? MIN (1.0, seconds / RATE_SECONDS) : 1.0;
  self->rate += (present - self->rate) * weight;
  self->started = self->started || bytes > 0;
  self->last_us = now_us;
  self->last_bytes = bytes;
}

static gpointer
draw_thread (gpointer data)
{
  Progress *self = data;
  gint64 period_us = self->style == PROGRESS_BAR ? FRAME_US : LINE_US;
  Meter meter = { .last_us = g_get_monotonic_time () };
  g_mutex_lock (&self->lock);
  gint64 next_us = meter.last_us + period_us;
  while (!self->ending)
    {
      if (g_cond_wait_until (&self->changed, &self->lock, next_us))
        continue;
      gint64 now_us = g_get_monotonic_time ();
      meter_update (&meter, now_us, self->done_bytes);
      draw_locked (self, meter.rate);
      next_us = now_us + period_us;
    }
  g_mutex_unlock (&self->lock);
  return NULL;
}

Progress *
progress_new (ProgressStyle style, const char *verb)
{
  Progress *self = g_new0 (Progress, 1);
  self->style = style;
  self->verb = g_strdup (verb);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  if (style != PROGRESS_OFF)
    self->thread = g_thread_new ("progress", draw_thread, self);
  return self;
}

void
progress_free (Progress *self)
{
  if (self == NULL)
    return;
  g_mutex_lock (&self->lock);
  self->ending = TRUE;
  g_cond_signal (&self->changed);
  g_mutex_unlock (&self->lock);
  if (self->thread != NULL)
    g_thread_join (self->thread);
  if (self->style == PROGRESS_BAR && self->total_bytes > 0)
    emit ("\r" CLEAR_TO_END);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self->file);
  g_free (self->verb);
  g_free (self);
}

void
progress_plan (Progress *self, guint64 total_bytes, guint n_files)
{
  g_mutex_lock (&self->lock);
  self->total_bytes = total_bytes;
  self->n_files = n_files;
  self->done_bytes = 0;
  self->n_done_files = 0;
  g_mutex_unlock (&self->lock);
}

void
progress_file (Progress *self, const char *path)
{
  g_mutex_lock (&self->lock);
  g_free (self->file);
  self->file = g_strdup (path);
  g_mutex_unlock (&self->lock);
}

void
progress_file_done (Progress *self)
{
  g_mutex_lock (&self->lock);
  self->n_done_files++;
  g_mutex_unlock (&self->lock);
}

void
progress_add (Progress *self, guint64 n_bytes)
{
  g_mutex_lock (&self->lock);
  self->done_bytes += n_bytes;
  g_mutex_unlock (&self->lock);
}
