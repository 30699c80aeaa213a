#include "net/http_tls.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"

#define MAX_CHAIN 16
#define MAX_FILE_BYTES (1024 * 1024)
/* A handshake that began with the old pair may still use it; handshakes are limited to seconds. */
#define RETIRED_US (10 * G_TIME_SPAN_MINUTE)

typedef struct {
  gnutls_pcert_st chain[MAX_CHAIN];
  guint n_chain;
  gnutls_privkey_t key;
  gint64 retired_us;
} Pair;

typedef struct {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec modified, changed;
} FileIdentity;

struct HttpTls {
  char *certificate_file, *key_file;
  FileIdentity seen[2]; /* of the last attempt; only the watchdog uses these two */
  gboolean failed;
  GMutex lock;
  Pair *current;
  GQueue retired;
};

static void
pair_free (Pair *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->n_chain; i++)
    gnutls_pcert_deinit (&self->chain[i]);
  if (self->key != NULL)
    gnutls_privkey_deinit (self->key);
  g_free (self);
}
G_DEFINE_AUTOPTR_CLEANUP_FUNC (Pair, pair_free)

static gnutls_datum_t
datum_of (GBytes *bytes)
{
  gsize size;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  return (gnutls_datum_t){ (unsigned char *) data, (unsigned) size };
}

static void
public_key_clear (gnutls_pubkey_t *key)
{
  if (*key != NULL)
    gnutls_pubkey_deinit (*key);
}

/* Whether the first certificate was made for the key. */
static gboolean
belong_together (Pair *pair)
{
  __attribute__ ((cleanup (public_key_clear))) gnutls_pubkey_t public_key = NULL;
  guint8 of_key[64], of_certificate[64];
  size_t key_size = sizeof of_key, certificate_size = sizeof of_certificate;
  return gnutls_pubkey_init (&public_key) == 0 && gnutls_pubkey_import_privkey (public_key, pair->key, 0, 0) == 0
         && gnutls_pubkey_get_key_id (public_key, GNUTLS_KEYID_USE_SHA256, of_key, &key_size) == 0
         && gnutls_pubkey_get_key_id (pair->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, of_certificate,
                                      &certificate_size)
              == 0
         && key_size == certificate_size && memcmp (of_key, of_certificate, key_size) == 0;
}

static gboolean
import_failed (GError **error, const char *file, int code)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "cannot use %s: %s", file, gnutls_strerror (code));
}

static GBytes *
read_pem (const char *file, GError **error)
{
  g_autoptr (GError) why = NULL;
  GBytes *content = file_read (file, MAX_FILE_BYTES, &why);
  if (content == NULL)
    am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "cannot use %s: %s", file, why->message);
  return content;
}

static Pair *
pair_load (const char *certificate_file, const char *key_file, GError **error)
{
  g_autoptr (GBytes) certificate = read_pem (certificate_file, error);
  if (certificate == NULL)
    return NULL;
  g_autoptr (GBytes) key = read_pem (key_file, error);
  if (key == NULL)
    return NULL;
  g_autoptr (Pair) pair = g_new0 (Pair, 1);
  gnutls_datum_t certificate_text = datum_of (certificate), key_text = datum_of (key);
  guint n_chain = MAX_CHAIN;
  int code = gnutls_pcert_list_import_x509_raw (pair->chain, &n_chain, &certificate_text, GNUTLS_X509_FMT_PEM, 0);
  if (code < 0 || n_chain == 0)
    {
      import_failed (error, certificate_file, code);
      return NULL;
    }
  pair->n_chain = n_chain;
  code = gnutls_privkey_init (&pair->key);
  if (code == 0)
    code = gnutls_privkey_import_x509_raw (pair->key, &key_text, GNUTLS_X509_FMT_PEM, NULL, 0);
  if (code < 0)
    {
      import_failed (error, key_file, code);
      return NULL;
    }
  if (!belong_together (pair))
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "the key %s does not belong to %s", key_file,
                         certificate_file);
  return g_steal_pointer (&pair);
}

static FileIdentity
identify (const char *path)
{
  struct stat info;
  FileIdentity identity;
  memset (&identity, 0, sizeof identity); /* compared as bytes */
  if (stat (path, &info) != 0)
    return identity;
  identity.device = info.st_dev;
  identity.inode = info.st_ino;
  identity.size = info.st_size;
  identity.modified = info.st_mtim;
  identity.changed = info.st_ctim;
  return identity;
}

HttpTls *
http_tls_new (const char *certificate_file, const char *key_file, GError **error)
{
  FileIdentity seen[] = { identify (certificate_file), identify (key_file) };
  Pair *pair = pair_load (certificate_file, key_file, error);
  if (pair == NULL)
    return NULL;
  HttpTls *self = g_new0 (HttpTls, 1);
  self->certificate_file = g_strdup (certificate_file);
  self->key_file = g_strdup (key_file);
  memcpy (self->seen, seen, sizeof seen);
  g_mutex_init (&self->lock);
  self->current = pair;
  g_queue_init (&self->retired);
  return self;
}

void
http_tls_free (HttpTls *self)
{
  if (self == NULL)
    return;
  pair_free (self->current);
  g_queue_clear_full (&self->retired, (GDestroyNotify) pair_free);
  g_mutex_clear (&self->lock);
  g_free (self->certificate_file);
  g_free (self->key_file);
  g_free (self);
}

static void
replace_pair (HttpTls *self, Pair *fresh)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  self->current->retired_us = g_get_monotonic_time ();
  g_queue_push_tail (&self->retired, self->current);
  self->current = fresh;
}

static void
free_retired (HttpTls *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  for (Pair *oldest = g_queue_peek_head (&self->retired);
       oldest != NULL && g_get_monotonic_time () - oldest->retired_us > RETIRED_US;
       oldest = g_queue_peek_head (&self->retired))
    pair_free (g_queue_pop_head (&self->retired));
}

void
http_tls_poll (HttpTls *self)
{
  free_retired (self);
  /* Looked at before reading: a change meanwhile shows as a difference next time. */
  FileIdentity now[] = { identify (self->certificate_file), identify (self->key_file) };
  gboolean changed = memcmp (now, self->seen, sizeof now) != 0;
  if (!changed && !self->failed)
    return;
  g_autoptr (GError) error = NULL;
  Pair *fresh = pair_load (self->certificate_file, self->key_file, &error);
  memcpy (self->seen, now, sizeof now);
  self->failed = fresh == NULL;
  if (fresh != NULL)
    {
      replace_pair (self, fresh);
      am_log_info (NULL, "certificate reloaded", "file", self->certificate_file, NULL);
    }
  else if (changed)
    am_log_warning (NULL, "new certificate is not usable; the old one stays", "file", self->certificate_file, "err",
                    error->message, NULL);
}

void
http_tls_current (HttpTls *self, gnutls_pcert_st **out_chain, guint *out_length, gnutls_privkey_t *out_key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  *out_chain = self->current->chain;
  *out_length = self->current->n_chain;
  *out_key = self->current->key;
}
