#include "dmcr/auth.h"

#include <crypt.h>
#include <string.h>
#include <sys/stat.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

#define FILE_LIMIT_BYTES (1u << 20)
#define CACHE_MAX 1024u
#define RECHECK_US (1 * G_USEC_PER_SEC)
/* Hashed when the user is unknown, so that the answer takes as long. */
#define DUMMY_HASH "$2y$10$abcdefghijklmnopqrstuuJ0b0Y1Y0n0b0Y1Y0n0b0Y1Y0n0b0Y1Y"

struct Auth {
  char *path;
  gboolean hashed;
  GStrv writers;
  gboolean anonymous_read, anonymous_write;
  GMutex lock;
  GHashTable *users;    /* name -> hash or password */
  GHashTable *verified; /* SHA-256 over salt, user, password and stored hash: bcrypt is slow by design */
  char salt[37];
  struct stat seen;
  gint64 checked_us;
};

static GHashTable *
read_users (const char *path, gboolean hashed, GError **error)
{
  g_autoptr (GBytes) bytes = file_read (path, FILE_LIMIT_BYTES, error);
  if (bytes == NULL)
    return NULL;
  g_autofree char *text = g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_autoptr (GHashTable) users = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      char *line = g_strchomp (lines[i]);
      char *colon = strchr (line, ':');
      if (*line == '\0' || *line == '#')
        continue;
      if (colon == NULL || colon == line || colon[1] == '\0' || (hashed && !g_str_has_prefix (colon + 1, "$2")))
        return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s: line %u is not \"user:%s\"", path, i + 1,
                             hashed ? "bcrypt hash (htpasswd -B)" : "password");
      g_hash_table_insert (users, g_strndup (line, (gsize) (colon - line)), g_strdup (colon + 1));
    }
  if (g_hash_table_size (users) == 0)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL, "%s names no user", path);
  return g_steal_pointer (&users);
}

Auth *
auth_new (const AuthConfig *config, GError **error)
{
  static const char *const default_writers[] = { "ai-models", NULL };
  if (config->htpasswd_file != NULL && config->plain_users_file != NULL)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, NULL,
                         "give either an htpasswd file or a plain one, not both");
  g_autoptr (Auth) self = g_new0 (Auth, 1);
  g_mutex_init (&self->lock);
  self->hashed = config->htpasswd_file != NULL;
  self->path = g_strdup (self->hashed ? config->htpasswd_file : config->plain_users_file);
  self->writers = g_strdupv ((char **) (config->writers != NULL ? config->writers : default_writers));
  self->anonymous_read = config->anonymous_read;
  self->anonymous_write = config->anonymous_write;
  self->verified = g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, NULL);
  text_uuid (self->salt);
  if (self->path == NULL)
    return g_steal_pointer (&self);
  self->users = read_users (self->path, self->hashed, error);
  if (self->users == NULL)
    return NULL;
  if (stat (self->path, &self->seen) < 0)
    memset (&self->seen, 0, sizeof self->seen);
  self->checked_us = g_get_monotonic_time ();
  return g_steal_pointer (&self);
}

void
auth_free (Auth *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->users, g_hash_table_unref);
  g_clear_pointer (&self->verified, g_hash_table_unref);
  g_strfreev (self->writers);
  g_free (self->path);
  g_mutex_clear (&self->lock);
  g_free (self);
}

/* A file that cannot be read or is half written leaves the users as they were. */
static void
reload_locked (Auth *self)
{
  struct stat now;
  if (g_get_monotonic_time () - self->checked_us < RECHECK_US)
    return;
  self->checked_us = g_get_monotonic_time ();
  if (stat (self->path, &now) < 0
      || (now.st_ino == self->seen.st_ino && now.st_size == self->seen.st_size
          && now.st_mtim.tv_sec == self->seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == self->seen.st_mtim.tv_nsec))
    return;
  g_autoptr (GError) problem = NULL;
  GHashTable *users = read_users (self->path, self->hashed, &problem);
  self->seen = now;
  if (users == NULL)
    {
      am_log_warning (NULL, "users file not taken over", "err", problem->message, NULL);
      return;
    }
  g_hash_table_unref (self->users);
  self->users = users;
  g_hash_table_remove_all (self->verified);
  am_log_info (NULL, "users file reloaded", "users", AM_U64 (g_hash_table_size (users)), NULL);
}

static gboolean
equal_in_constant_time (const char *a, const char *b)
{
  Digest da, db; /* equal lengths whatever the strings */
  digest_of (DIGEST_SHA256, a, strlen (a), &da);
  digest_of (DIGEST_SHA256, b, strlen (b), &db);
  return digest_equal_secret (&da, &db);
}

static gboolean
password_fits (Auth *self, const char *password, const char *stored)
{
  if (!self->hashed)
    return equal_in_constant_time (password, stored);
  g_autofree struct crypt_data *data = g_new0 (struct crypt_data, 1);
  const char *hash = crypt_r (password, stored, data);
  return hash != NULL && hash[0] != '*' && equal_in_constant_time (hash, stored);
}

static GBytes *
cache_key (Auth *self, const char *user, const char *password, const char *stored)
{
  const char *parts[] = { self->salt, user, password, stored };
  Digest digest;
  g_autoptr (Hasher) hasher = hasher_new (DIGEST_SHA256);
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    hasher_update (hasher, parts[i], strlen (parts[i]) + 1);
  hasher_finish (hasher, &digest);
  return g_bytes_new (digest.bytes, 32);
}

static gboolean
credentials_fit (Auth *self, const char *user, const char *password)
{
  g_mutex_lock (&self->lock);
  reload_locked (self);
  const char *found = g_hash_table_lookup (self->users, user);
  g_autofree char *stored = g_strdup (found != NULL ? found : self->hashed ? DUMMY_HASH : "");
  g_autoptr (GBytes) key = cache_key (self, user, password, stored);
  gboolean cached = found != NULL && g_hash_table_contains (self->verified, key);
  g_mutex_unlock (&self->lock);
  if (cached)
    return TRUE;
  gboolean fits = password_fits (self, password, stored) && found != NULL;
  if (!fits || !self->hashed)
    return fits;
  g_mutex_lock (&self->lock);
  if (g_hash_table_size (self->verified) >= CACHE_MAX)
    g_hash_table_remove_all (self->verified);
  g_hash_table_add (self->verified, g_steal_pointer (&key));
  g_mutex_unlock (&self->lock);
  return TRUE;
}

/* "Basic base64(user:password)" */
static gboolean
parse_basic (const char *authorization, char **out_user, char **out_password)
{
  if (g_ascii_strncasecmp (authorization, "Basic ", 6) != 0 || strlen (authorization) > 4096)
    return FALSE;
  gsize size;
  g_autofree guchar *decoded = g_base64_decode (authorization + 6, &size);
  g_autofree char *text = g_strndup ((const char *) decoded, size);
  char *colon = strchr (text, ':');
  if (colon == NULL || strlen (text) != size)
    return FALSE;
  *out_user = g_strndup (text, (gsize) (colon - text));
  *out_password = g_strdup (colon + 1);
  return TRUE;
}

gboolean
auth_check (Auth *self, const char *authorization, gboolean writes, char **out_user, GError **error)
{
  *out_user = NULL;
  gboolean anonymous_may = writes ? self->anonymous_write : self->anonymous_read || self->anonymous_write;
  if (self->users == NULL || (authorization == NULL && anonymous_may))
    return anonymous_may
           || am_fail (error, AM_ERROR_PERMISSION_DENIED, "DENIED", "this registry takes no writes from anybody");
  g_autofree char *user = NULL;
  g_autofree char *password = NULL;
  if (authorization == NULL || !parse_basic (authorization, &user, &password)
      || !credentials_fit (self, user, password))
    return am_fail (error, AM_ERROR_UNAUTHENTICATED, "UNAUTHORIZED",
                    authorization == NULL ? "credentials are needed" : "the credentials are not valid");
  if (writes && !g_strv_contains ((const char *const *) self->writers, user))
    return am_fail (error, AM_ERROR_PERMISSION_DENIED, "DENIED", "user %s may only read", user);
  *out_user = g_steal_pointer (&user);
  return TRUE;
}
