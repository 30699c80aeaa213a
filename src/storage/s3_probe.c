#include "storage/s3_probe.h"

#include <stdatomic.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "base/workers.h"
#include "net/metrics.h"
#include "storage/s3_listing.h"

#define N_RACERS 4
#define N_RACES 2
/* As long as a sum is, and of other bytes. */
#define FOREIGN_SHA256 "3q2+796tvu/erb7v3q2+796tvu/erb7v3q2+796tvu8="

/* In the order of their bytes; a walk through folders would begin with "a/b". */
static const char *const ordered[] = { "a-b", "a/b", "a0" };

typedef struct {
  S3Client *client;
  char *folder;
  GPtrArray *keys; /* to clean up */
  guint round;
  atomic_uint n_won, n_failed;
} Probe;

static char *
probe_key (Probe *self, const char *name)
{
  char *key = g_strconcat (self->folder, name, NULL);
  g_ptr_array_add (self->keys, key);
  return key;
}

static gboolean
put (Ctx *ctx, S3Client *client, const char *key, const S3Pair *header, GError **error)
{
  S3Call call = { .method = "PUT",
                  .key = key,
                  .what = "trying what the bucket can do",
                  .headers = header,
                  .n_headers = header != NULL ? 1 : 0,
                  .body = "right",
                  .body_size = 5,
                  .once = header != NULL };
  return s3_client_call (ctx, client, &call, NULL, error);
}

static gboolean
try_order (Ctx *ctx, Probe *self, S3Profile *profile, GError **error)
{
  g_auto (S3Listing) page = { 0 };
  S3ListCall call = { .prefix = self->folder, .limit = 10 };
  for (gsize i = 0; i < G_N_ELEMENTS (ordered); i++)
    if (!put (ctx, self->client, probe_key (self, ordered[i]), NULL, error))
      return FALSE;
  if (!s3_list_page (ctx, self->client, &call, &page, error))
    return FALSE;
  profile->list_at_once = page.objects->len == G_N_ELEMENTS (ordered);
  profile->byte_order = profile->list_at_once;
  for (guint i = 0; profile->byte_order && i < G_N_ELEMENTS (ordered); i++)
    profile->byte_order = strcmp (g_array_index (page.objects, S3Object, i).key, g_ptr_array_index (self->keys, i))
                          == 0;
  return TRUE;
}

/* A refusal that is meant: any other failure is the probe's own. */
static gboolean
is_refusal (const GError *problem)
{
  return am_error_is (problem, AM_ERROR_DATA_LOSS) || am_error_is (problem, AM_ERROR_INTERNAL)
         || am_error_is (problem, AM_ERROR_ALREADY_EXISTS) || am_error_is (problem, AM_ERROR_UNIMPLEMENTED);
}

/* Whether a write with a header that must not hold is refused. */
static gboolean
try_refusal (Ctx *ctx, Probe *self, const char *name, S3Pair header, gboolean *out_refused, GError **error)
{
  g_autoptr (GError) problem = NULL;
  *out_refused = !put (ctx, self->client, probe_key (self, name), &header, &problem);
  if (!*out_refused || is_refusal (problem))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&problem));
  return FALSE;
}

static gboolean
try_checksum (Ctx *ctx, Probe *self, S3Profile *profile, GError **error)
{
  S3Call good = { .method = "PUT",
                  .key = probe_key (self, "sum"),
                  .what = "trying what the bucket can do",
                  .body = "right",
                  .body_size = 5,
                  .sends_checksum = TRUE };
  g_autoptr (GError) problem = NULL;
  profile->takes_checksum = s3_client_call (ctx, self->client, &good, NULL, &problem);
  if (!profile->takes_checksum && is_refusal (problem))
    return TRUE;
  if (!profile->takes_checksum)
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  return try_refusal (ctx, self, "wrong", (S3Pair){ "x-amz-checksum-sha256", FOREIGN_SHA256 }, &profile->checksum,
                      error);
}

/* A worker. Whatever fails otherwise counts against the store. */
static gboolean
race (Ctx *ctx, gpointer data, GError **error)
{
  Probe *self = data;
  g_autoptr (GError) problem = NULL;
  S3Pair header = { "if-none-match", "*" };
  if (put (ctx, self->client, g_ptr_array_index (self->keys, self->keys->len - 1), &header, &problem))
    atomic_fetch_add (&self->n_won, 1);
  else if (!am_error_is (problem, AM_ERROR_ALREADY_EXISTS))
    atomic_fetch_add (&self->n_failed, 1);
  return TRUE;
}

static gboolean
try_race (Ctx *ctx, Probe *self, S3Profile *profile, GError **error)
{
  profile->if_none_match = TRUE;
  for (guint i = 0; i < N_RACES && profile->if_none_match; i++)
    {
      g_autofree char *name = g_strdup_printf ("race-%u", i);
      probe_key (self, name);
      atomic_store (&self->n_won, 0);
      atomic_store (&self->n_failed, 0);
      if (!workers_run (ctx, N_RACERS, race, self, error))
        return FALSE;
      profile->if_none_match = atomic_load (&self->n_won) == 1 && atomic_load (&self->n_failed) == 0;
    }
  return TRUE;
}

static gboolean
clean_up (Ctx *ctx, Probe *self, S3Profile *profile)
{
  g_autoptr (GError) problem = NULL;
  profile->batch_delete = s3_remove_batch (ctx, self->client, (const char *const *) self->keys->pdata,
                                           self->keys->len, &problem);
  for (guint i = 0; !profile->batch_delete && i < self->keys->len; i++)
    {
      g_clear_error (&problem);
      S3Call call = { .method = "DELETE", .key = g_ptr_array_index (self->keys, i) };
      s3_client_call (ctx, self->client, &call, NULL, &problem);
    }
  if (problem != NULL)
    am_ignore (&problem, "what a probe leaves behind takes a few bytes");
  return TRUE;
}

static gboolean
try_writes (Ctx *ctx, Probe *self, S3Profile *profile, GError **error)
{
  gboolean done = try_order (ctx, self, profile, error) && try_checksum (ctx, self, profile, error)
                  && try_race (ctx, self, profile, error)
                  && try_refusal (ctx, self, ordered[0],
                                  (S3Pair){ "if-match", "\"00000000000000000000000000000000\"" }, &profile->if_match,
                                  error);
  clean_up (ctx, self, profile);
  profile->writable = done;
  return done;
}

static void
report (Ctx *ctx, S3Client *client, const S3Profile *profile)
{
  static const char *const label[] = { "feature", NULL };
  const struct {
    const char *name;
    gboolean has;
  } features[] = {
    { "writable", profile->writable },           { "checksum", profile->checksum },
    { "if_none_match", profile->if_none_match }, { "if_match", profile->if_match },
    { "list_at_once", profile->list_at_once },   { "byte_order", profile->byte_order },
    { "batch_delete", profile->batch_delete },
  };
  Metric *metric = metric_declare ("object_store_feature", METRIC_GAUGE,
                                   "What the bucket was found to keep of what S3 promises: 1 yes, 0 no.", label);
  g_autoptr (GString) yes = g_string_new (NULL), no = g_string_new (NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (features); i++)
    {
      GString *list = features[i].has ? yes : no;
      g_string_append_printf (list, "%s%s", list->len > 0 ? " " : "", features[i].name);
      metric_set (metric, features[i].has, features[i].name, NULL);
    }
  am_log_info (ctx, "bucket probed", "bucket", s3_client_bucket (client), "has", yes->str, "lacks",
               no->len > 0 ? no->str : NULL, NULL);
  if (profile->writable && !profile->if_none_match)
    am_log_warning (ctx, "the bucket does not keep conditional writes apart: run one process over it", NULL);
}

gboolean
s3_probe (Ctx *ctx, S3Client *client, S3Profile *out_profile, GError **error)
{
  g_auto (S3Listing) page = { 0 };
  S3Profile profile = { 0 };
  char uuid[37];
  g_autoptr (GError) problem = NULL;
  S3ListCall first = { .prefix = "", .limit = 1 };
  if (!s3_list_page (ctx, client, &first, &page, error))
    return FALSE;
  text_uuid (uuid);
  g_autofree char *folder = g_strdup_printf (".probe/%s/", uuid);
  g_autoptr (GPtrArray) keys = g_ptr_array_new_with_free_func (g_free);
  Probe probe = { .client = client, .folder = folder, .keys = keys };
  if (!try_writes (ctx, &probe, &profile, &problem))
    {
      if (!am_error_is (problem, AM_ERROR_PERMISSION_DENIED))
        {
          g_propagate_error (error, g_steal_pointer (&problem));
          return FALSE;
        }
      am_log_warning (ctx, "the bucket can only be read", "err", problem->message, NULL);
    }
  report (ctx, client, &profile);
  *out_profile = profile;
  return TRUE;
}
