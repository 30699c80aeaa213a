#include "dmcr/grants.h"

#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/recent.h"
#include "net/metrics.h"
#include "oci/manifest.h"
#include "registry/manifest_store.h"

#define MAX_SALT_BYTES 4096
#define MAX_NAMES_BYTES (8u << 20)
#define NAMES_AGE_MS 60000
#define SERIES_AGE_S (10 * 60) /* after its grant has ended */
#define BASIC_USER "grant:"

/* What was read under one grant, since this process began. */
typedef struct {
  guint64 read_bytes;
  gint64 expires_s;
} Tally;

/* One series of the metric of what was read. */
typedef struct {
  char *purpose, *namespace, *name, *digest;
  gint64 expires_s;
} Series;

struct Grants {
  guint8 key[READ_GRANT_KEY_SIZE];
  BlobStore *blobs;
  Recent *names; /* "repository@digest" -> digests that its manifest names, a line each */
  GMutex lock;
  GHashTable *series;  /* its labels in one text -> Series */
  GHashTable *tallies; /* a grant's id -> Tally */
  Metric *by_purpose, *by_reader;
};

struct GrantUse {
  gatomicrefcount n_refs;
  Grants *grants; /* outlives the requests */
  ReadGrant grant;
};

static void
series_free (gpointer data)
{
  Series *series = data;
  g_free (series->purpose);
  g_free (series->namespace);
  g_free (series->name);
  g_free (series->digest);
  g_free (series);
}

Grants *
grants_new (const char *salt_file, BlobStore *blobs, GError **error)
{
  static const char *const purpose[] = { "purpose", NULL };
  static const char *const reader[] = { "purpose", "subject_namespace", "subject_name", "digest", NULL };
  g_autoptr (GBytes) bytes = file_read (salt_file, MAX_SALT_BYTES, error);
  if (bytes == NULL)
    return NULL;
  g_autofree char *salt = g_strstrip (g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes)));
  if (salt[0] == '\0')
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s holds no salt", salt_file);
  Grants *self = g_new0 (Grants, 1);
  read_grant_key (salt, self->key);
  self->blobs = blobs;
  self->names = recent_new (MAX_NAMES_BYTES, NAMES_AGE_MS);
  g_mutex_init (&self->lock);
  self->series = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, series_free);
  self->tallies = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->by_purpose = metric_declare ("d8_ai_models_dmcr_transfer_bytes_total", METRIC_COUNTER,
                                     "Bytes of blobs read with a grant, decoded, by what for.", purpose);
  self->by_reader = metric_declare ("d8_ai_models_dmcr_grant_read_bytes", METRIC_GAUGE,
                                    "Bytes of blobs read with a grant, decoded, by whom.", reader);
  return self;
}

void
grants_free (Grants *self)
{
  if (self == NULL)
    return;
  recent_free (self->names);
  g_hash_table_unref (self->series);
  g_hash_table_unref (self->tallies);
  g_mutex_clear (&self->lock);
  g_free (self);
}

char *
grants_token (const char *authorization)
{
  if (authorization == NULL)
    return NULL;
  if (g_ascii_strncasecmp (authorization, "Bearer ", 7) == 0)
    return g_strstrip (g_strdup (authorization + 7));
  if (g_ascii_strncasecmp (authorization, "Basic ", 6) != 0)
    return NULL;
  gsize size = 0;
  g_autofree guchar *decoded = g_base64_decode (authorization + 6, &size);
  gsize user_size = strlen (BASIC_USER);
  if (size <= user_size || memcmp (decoded, BASIC_USER, user_size) != 0)
    return NULL;
  return g_strndup ((const char *) decoded + user_size, size - user_size);
}

/* Digests that the grant's manifest needs, each with a newline before and behind. */
static GBytes *
names_of (Ctx *ctx, Grants *self, const ReadGrant *grant, GError **error)
{
  g_autofree char *key = g_strconcat (grant->repository, "@", grant->digest, NULL);
  GBytes *known = recent_get (self->names, key);
  if (known != NULL)
    return known;
  g_autofree char *media_type = NULL;
  g_autoptr (GBytes) bytes = manifest_store_get (ctx, self->blobs, grant->repository, grant->digest, &media_type,
                                                 NULL, error);
  g_autoptr (Manifest) manifest = bytes != NULL ? manifest_parse (bytes, media_type, error) : NULL;
  if (manifest == NULL)
    return NULL;
  g_autoptr (GArray) refs = manifest_refs (manifest);
  GString *names = g_string_new ("\n");
  char text[DIGEST_STRING_SIZE];
  for (guint i = 0; i < refs->len; i++)
    {
      const Descriptor *descriptor = g_array_index (refs, ManifestRef, i).descriptor;
      g_string_append_printf (names, "%s\n", digest_format (&descriptor->digest, text));
    }
  GBytes *found = g_string_free_to_bytes (names);
  recent_put (self->names, key, found);
  return found;
}

static gboolean
names_blob (Ctx *ctx, Grants *self, const ReadGrant *grant, const char *digest, gboolean *out_named, GError **error)
{
  g_autoptr (GBytes) names = names_of (ctx, self, grant, error);
  g_autofree char *line = g_strconcat ("\n", digest, "\n", NULL);
  gsize size = 0;
  if (names == NULL)
    return FALSE;
  const char *text = g_bytes_get_data (names, &size);
  *out_named = g_strstr_len (text, (gssize) size, line) != NULL;
  return TRUE;
}

/* The route's own words tell what is asked for: "reference" of a manifest, "digest" of a blob (or of referrers, which no
 * grant gives), neither of the base. */
static gboolean
allows (Ctx *ctx, Grants *self, const ReadGrant *grant, HttpRequest *req, gboolean *out_allowed, GError **error)
{
  const char *method = http_request_method (req), *repository = http_request_param (req, "name");
  const char *reference = http_request_param (req, "reference"), *digest = http_request_param (req, "digest");
  g_autofree char *blob_path = g_strdup_printf ("/v2/%s/blobs/%s", repository, digest);
  *out_allowed = FALSE;
  if (strcmp (method, "GET") != 0 && strcmp (method, "HEAD") != 0)
    return TRUE;
  if (repository == NULL) /* is this a registry? But no grant tells of another */
    *out_allowed = http_request_param (req, "grant") == NULL;
  else if (strcmp (repository, grant->repository) != 0)
    return TRUE;
  else if (reference != NULL)
    *out_allowed = strcmp (reference, grant->digest) == 0;
  else if (digest != NULL && strcmp (http_request_path (req), blob_path) == 0)
    return names_blob (ctx, self, grant, digest, out_allowed, error);
  return TRUE;
}

static void
use_free (gpointer data)
{
  grant_use_unref (data);
}

static char *
identity_of (const ReadGrant *grant)
{
  if (grant->user != NULL)
    return g_strdup_printf ("grant %s for %s", grant->id, grant->user);
  return g_strdup_printf ("grant %s for %s/%s", grant->id, grant->namespace != NULL ? grant->namespace : "",
                          grant->name != NULL ? grant->name : "");
}

static void
log_read (Ctx *ctx, HttpRequest *req, const ReadGrant *grant)
{
  const char *digest = http_request_param (req, "digest");
  const char *what = digest != NULL ? "blob_read" : "manifest_read";
  am_log_info (ctx, what, "grant", grant->id, "purpose", grant->purpose, "repository", grant->repository, "digest",
               digest != NULL ? digest : grant->digest, "subject_namespace", grant->namespace, "subject_name",
               grant->name, "user", grant->user, "uid", grant->uid, NULL);
}

gboolean
grants_admit (Ctx *ctx, Grants *self, HttpRequest *req, const char *token, GError **error)
{
  g_auto (ReadGrant) grant = { 0 };
  gboolean allowed = FALSE;
  if (!read_grant_verify (token, self->key, g_get_real_time () / G_USEC_PER_SEC, &grant, error)
      || !allows (ctx, self, &grant, req, &allowed, error))
    return FALSE;
  g_autofree char *identity = identity_of (&grant);
  http_request_set_identity (req, identity);
  if (!allowed)
    return am_fail (error, AM_ERROR_PERMISSION_DENIED, "DENIED", "the read grant %.64s is for something else",
                    grant.id);
  if (http_request_param (req, "name") != NULL)
    log_read (ctx, req, &grant);
  GrantUse *use = g_new0 (GrantUse, 1);
  g_atomic_ref_count_init (&use->n_refs);
  use->grants = self;
  use->grant = grant;
  grant = (ReadGrant){ 0 };
  http_request_set_data (req, use, use_free);
  return TRUE;
}

GrantUse *
grants_use (HttpRequest *req)
{
  GrantUse *use = http_request_data (req);
  if (use != NULL)
    g_atomic_ref_count_inc (&use->n_refs);
  return use;
}

void
grant_use_unref (GrantUse *self)
{
  if (self == NULL || !g_atomic_ref_count_dec (&self->n_refs))
    return;
  read_grant_clear (&self->grant);
  g_free (self);
}

static const char *
or_nothing (const char *text)
{
  return text != NULL ? text : "";
}

/* What is kept of grants that ended some time ago goes. */
static void
drop_old_locked (Grants *self, gint64 now_s)
{
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init (&iter, self->tallies);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    if (now_s >= ((const Tally *) value)->expires_s + SERIES_AGE_S)
      g_hash_table_iter_remove (&iter);
  g_hash_table_iter_init (&iter, self->series);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const Series *series = value;
      if (now_s < series->expires_s + SERIES_AGE_S)
        continue;
      metric_remove (self->by_reader, series->purpose, series->namespace, series->name, series->digest, NULL);
      g_hash_table_iter_remove (&iter);
    }
}

static void
add_to_tally_locked (Grants *self, const ReadGrant *grant, guint64 n_bytes)
{
  Tally *tally = g_hash_table_lookup (self->tallies, grant->id);
  if (tally == NULL)
    {
      drop_old_locked (self, g_get_real_time () / G_USEC_PER_SEC);
      tally = g_new0 (Tally, 1);
      g_hash_table_insert (self->tallies, g_strdup (grant->id), tally);
    }
  tally->read_bytes += n_bytes;
  tally->expires_s = MAX (tally->expires_s, grant->expires_s);
}

static void
note_series (Grants *self, const ReadGrant *grant, guint64 n_bytes)
{
  g_autofree char *key = g_strjoin ("\n", grant->purpose, or_nothing (grant->namespace), or_nothing (grant->name),
                                    grant->digest, NULL);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  add_to_tally_locked (self, grant, n_bytes);
  Series *series = g_hash_table_lookup (self->series, key);
  if (series == NULL)
    {
      series = g_new0 (Series, 1);
      *series = (Series){ g_strdup (grant->purpose), g_strdup (or_nothing (grant->namespace)),
                          g_strdup (or_nothing (grant->name)), g_strdup (grant->digest), 0 };
      g_hash_table_insert (self->series, g_strdup (key), series);
    }
  series->expires_s = MAX (series->expires_s, grant->expires_s);
}

void
grant_use_count (GrantUse *self, guint64 n_bytes)
{
  if (self == NULL || n_bytes == 0)
    return;
  const ReadGrant *grant = &self->grant;
  note_series (self->grants, grant, n_bytes);
  metric_add (self->grants->by_purpose, (double) n_bytes, grant->purpose, NULL);
  metric_add (self->grants->by_reader, (double) n_bytes, grant->purpose, or_nothing (grant->namespace),
              or_nothing (grant->name), grant->digest, NULL);
}

guint64
grants_read_bytes (Grants *self, const char *id)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  const Tally *tally = g_hash_table_lookup (self->tallies, id);
  return tally != NULL ? tally->read_bytes : 0;
}
