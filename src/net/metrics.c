#include "net/metrics.h"

#include <stdarg.h>
#include <string.h>

#define MAX_LABELS 8

static const double bounds[] = { 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10 };
#define N_BOUNDS G_N_ELEMENTS (bounds)

typedef struct {
  double value;              /* counter, gauge; sum of a histogram */
  guint64 count;             /* observations */
  guint64 buckets[N_BOUNDS]; /* not cumulative */
} Series;

struct Metric {
  GMutex lock;
  char *name;
  char *help;
  MetricType type;
  guint n_labels;
  char *label_names[MAX_LABELS];
  GHashTable *series; /* rendered labels ("a=\"x\",b=\"y\"") -> Series */
};

static GMutex registry_lock;
static GTree *registry; /* name -> Metric, in name order; never freed */

static int
compare_names (gconstpointer a, gconstpointer b, gpointer data)
{
  return strcmp (a, b);
}

static Metric *
metric_new (const char *name, MetricType type, const char *help, const char *const *label_names)
{
  Metric *self = g_new0 (Metric, 1);
  g_mutex_init (&self->lock);
  self->name = g_strdup (name);
  self->help = g_strdup (help);
  self->type = type;
  self->series = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint i = 0; label_names != NULL && label_names[i] != NULL; i++)
    {
      g_assert (self->n_labels < MAX_LABELS);
      self->label_names[self->n_labels++] = g_strdup (label_names[i]);
    }
  return self;
}

Metric *
metric_declare (const char *name, MetricType type, const char *help, const char *const *label_names)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&registry_lock);
  if (registry == NULL)
    registry = g_tree_new_full (compare_names, NULL, NULL, NULL);
  Metric *self = g_tree_lookup (registry, name);
  if (self == NULL)
    {
      self = metric_new (name, type, help, label_names);
      g_tree_insert (registry, self->name, self);
    }
  g_assert (self->type == type);
  return self;
}

static void
append_escaped (GString *out, const char *text, gboolean quotes_too)
{
  g_autofree char *valid = g_utf8_make_valid (text, -1);
  for (const char *c = valid; *c != '\0'; c++)
    {
      if (*c == '\n')
        g_string_append (out, "\\n");
      else if (*c == '\\' || (*c == '"' && quotes_too))
        g_string_append_printf (out, "\\%c", *c);
      else
        g_string_append_c (out, *c);
    }
}

void
metrics_append_escaped (GString *out, const char *text)
{
  append_escaped (out, text, TRUE);
}

static char *
render_labels (Metric *self, va_list values)
{
  GString *out = g_string_sized_new (64);
  for (guint i = 0; i < self->n_labels; i++)
    {
      const char *value = va_arg (values, const char *);
      g_assert (value != NULL); /* fewer values than names */
      g_string_append_printf (out, i == 0 ? "%s=\"" : ",%s=\"", self->label_names[i]);
      append_escaped (out, value, TRUE);
      g_string_append_c (out, '"');
    }
  return g_string_free (out, FALSE);
}

static Series *
find_series_locked (Metric *self, char *labels)
{
  Series *series = g_hash_table_lookup (self->series, labels);
  if (series == NULL)
    {
      series = g_new0 (Series, 1);
      g_hash_table_insert (self->series, g_strdup (labels), series);
    }
  return series;
}

#define WITH_LABELS(self, last_argument, labels)          \
  va_list values;                                         \
  va_start (values, last_argument);                       \
  g_autofree char *labels = render_labels (self, values); \
  va_end (values);                                        \
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&(self)->lock)

void
metric_add (Metric *self, double amount, ...)
{
  WITH_LABELS (self, amount, labels);
  find_series_locked (self, labels)->value += amount;
}

void
metric_set (Metric *self, double value, ...)
{
  WITH_LABELS (self, value, labels);
  find_series_locked (self, labels)->value = value;
}

void
metric_observe (Metric *self, double seconds, ...)
{
  WITH_LABELS (self, seconds, labels);
  Series *series = find_series_locked (self, labels);
  series->value += seconds;
  series->count++;
  for (guint i = 0; i < N_BOUNDS; i++)
    if (seconds <= bounds[i])
      {
        series->buckets[i]++;
        break;
      }
}

double
metric_value (Metric *self, ...)
{
  WITH_LABELS (self, self, labels);
  const Series *series = g_hash_table_lookup (self->series, labels);
  if (series == NULL)
    return 0;
  return self->type == METRIC_HISTOGRAM ? (double) series->count : series->value;
}

void
metric_remove (Metric *self, ...)
{
  WITH_LABELS (self, self, labels);
  g_hash_table_remove (self->series, labels);
}

static void
append_number (GString *out, double value)
{
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  gboolean whole = value >= -9e15 && value <= 9e15 && value == (double) (gint64) value;
  g_string_append (out, g_ascii_formatd (text, sizeof text, whole ? "%.0f" : "%.12g", value));
}

static void
append_sample (GString *out, const Metric *self, const char *suffix, const char *labels, const char *bound,
               double value)
{
  g_string_append_printf (out, "%s%s", self->name, suffix);
  if (*labels != '\0' || bound != NULL)
    {
      g_string_append_printf (out, "{%s", labels);
      if (bound != NULL)
        g_string_append_printf (out, "%sle=\"%s\"", *labels != '\0' ? "," : "", bound);
      g_string_append_c (out, '}');
    }
  g_string_append_c (out, ' ');
  append_number (out, value);
  g_string_append_c (out, '\n');
}

static void
append_histogram (GString *out, const Metric *self, const char *labels, const Series *series)
{
  guint64 below = 0;
  for (guint i = 0; i < N_BOUNDS; i++)
    {
      char bound[G_ASCII_DTOSTR_BUF_SIZE];
      below += series->buckets[i];
      append_sample (out, self, "_bucket", labels, g_ascii_formatd (bound, sizeof bound, "%g", bounds[i]),
                     (double) below);
    }
  append_sample (out, self, "_bucket", labels, "+Inf", (double) series->count);
  append_sample (out, self, "_sum", labels, NULL, series->value);
  append_sample (out, self, "_count", labels, NULL, (double) series->count);
}

static gboolean
append_family (gpointer key, gpointer value, gpointer data)
{
  static const char *const type_names[] = { "counter", "gauge", "histogram" };
  Metric *self = value;
  GString *out = data;
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  g_string_append_printf (out, "# HELP %s ", self->name);
  append_escaped (out, self->help, FALSE);
  g_string_append_printf (out, "\n# TYPE %s %s\n", self->name, type_names[self->type]);
  g_autoptr (GList) labels = g_list_sort (g_hash_table_get_keys (self->series), (GCompareFunc) strcmp);
  for (GList *each = labels; each != NULL; each = each->next)
    {
      const Series *series = g_hash_table_lookup (self->series, each->data);
      if (self->type == METRIC_HISTOGRAM)
        append_histogram (out, self, each->data, series);
      else
        append_sample (out, self, "", each->data, NULL, series->value);
    }
  return FALSE;
}

char *
metrics_render (void)
{
  GString *out = g_string_sized_new (4096);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&registry_lock);
  if (registry != NULL)
    g_tree_foreach (registry, append_family, out);
  return g_string_free (out, FALSE);
}
