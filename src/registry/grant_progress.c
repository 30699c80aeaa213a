#include "registry/grant_progress.h"

#include <string.h>

#include "base/json.h"
#include "net/host_addresses.h"
#include "net/http_client.h"
#include "registry/registry_login.h"

#define TIMEOUT_MS 2000
#define MAX_AGE_MS 3000
#define MAX_PEERS 8u     /* names */
#define MAX_REPLICAS 64u /* behind each */
#define MAX_GRANTS 4096u /* remembered */
#define MAX_ID_CHARS 128u
#define MAX_ANSWER_BYTES 4096u
#define ID_CHARS G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-_."
#define REPLICA "a replica of the module's registry"

/* What one replica said of one grant. */
typedef struct {
  guint64 before_bytes; /* counted by those that had its address before */
  guint64 last_bytes;
} Count;

typedef struct {
  GHashTable *counts; /* address -> Count */
  gint64 asked_us;
  GError *failure; /* of the last time; NULL: it went well */
} Known;

struct GrantProgress {
  char *host_port, *peers, *ca_file, *login_dir;
  gboolean plain_http;
  gint64 max_age_us;
  GMutex lock;
  GHashTable *grants; /* id -> Known */
};

/* One round of questions. */
typedef struct {
  Ctx *ctx;
  HttpClient *http;
  const char *url;
  GHashTable *answers; /* address -> guint64 * */
} Round;

static void
known_free (gpointer data)
{
  Known *self = data;
  g_hash_table_unref (self->counts);
  g_clear_error (&self->failure);
  g_free (self);
}

GrantProgress *
grant_progress_new (const GrantProgressConfig *config)
{
  GrantProgress *self = g_new0 (GrantProgress, 1);
  self->host_port = g_strdup (config->registry);
  self->peers = g_strdup (config->peers != NULL ? config->peers : config->registry);
  self->plain_http = config->plain_http;
  self->ca_file = g_strdup (config->ca_file);
  self->login_dir = g_strdup (config->login_dir);
  self->max_age_us = (config->max_age_ms > 0 ? config->max_age_ms : MAX_AGE_MS) * 1000;
  self->grants = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, known_free);
  g_mutex_init (&self->lock);
  return self;
}

void
grant_progress_free (GrantProgress *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->grants);
  g_mutex_clear (&self->lock);
  g_free (self->host_port);
  g_free (self->peers);
  g_free (self->ca_file);
  g_free (self->login_dir);
  g_free (self);
}

static gboolean
id_is_ours (const char *id)
{
  gsize size = strlen (id);
  return size > 0 && size <= MAX_ID_CHARS && strspn (id, ID_CHARS) == size && strspn (id, ".") < size;
}

/* Asking */

static gboolean
parse_answer (GBytes *body, guint64 *out_bytes, GError **error)
{
  static const JsonField field = { "readBytes", JSON_UINT64, 0, TRUE };
  gsize size = 0;
  const char *text = g_bytes_get_data (body, &size);
  g_autoptr (yyjson_doc) doc = json_parse (text, size, MAX_ANSWER_BYTES, JSON_STRICT, error);
  return doc != NULL && json_bind (yyjson_doc_get_root (doc), &field, 1, out_bytes, error);
}

static gboolean
ask_replica (Round *self, const char *machine, GError **error)
{
  g_auto (HttpReply) reply = { 0 };
  g_autoptr (GError) failure = NULL;
  guint64 read_bytes = 0;
  HttpCall call = { .method = "GET",
                    .url = self->url,
                    .connect_to = machine,
                    .reply_limit_bytes = MAX_ANSWER_BYTES,
                    .no_redirects = TRUE };
  if (!http_client_call (self->ctx, self->http, &call, &reply, &failure))
    return registry_tell_failure (REPLICA, failure, reply.status, error);
  if (reply.status != 200 || !parse_answer (reply.body, &read_bytes, &failure))
    return am_fail (error, AM_ERROR_DATA_LOSS, NULL, "a replica of the module's registry gave no count");
  g_hash_table_replace (self->answers, g_strdup (machine), g_memdup2 (&read_bytes, sizeof read_bytes));
  return TRUE;
}

/* "HOST[:PORT]" or "[ADDRESS][:PORT]"; without a port, that of the scheme. Host: caller frees. */
static char *
split_host (const char *text, const char *scheme_port, const char **out_port)
{
  const char *bracket = text[0] == '[' ? strchr (text, ']') : NULL;
  const char *colon = strrchr (bracket != NULL ? bracket : text, ':');
  *out_port = colon != NULL ? colon + 1 : scheme_port;
  const char *end = bracket != NULL ? bracket : colon != NULL ? colon : text + strlen (text);
  const char *begin = bracket != NULL ? text + 1 : text;
  return g_strndup (begin, (gsize) (end - begin));
}

static gboolean
ask_peer (Round *self, const char *peer, const char *scheme_port, GError **error)
{
  const char *port;
  g_autoptr (GError) failure = NULL;
  g_autofree char *host = split_host (peer, scheme_port, &port);
  g_autoptr (GPtrArray) addresses = host_addresses (self->ctx, host, MAX_REPLICAS, &failure);
  if (addresses == NULL)
    return registry_tell_failure (REPLICA, failure, 0, error);
  for (guint i = 0; i < addresses->len; i++)
    {
      const char *address = g_ptr_array_index (addresses, i);
      gboolean is_v6 = strchr (address, ':') != NULL;
      g_autofree char *machine = g_strdup_printf ("%s%s%s:%s", is_v6 ? "[" : "", address, is_v6 ? "]" : "", port);
      if (!ask_replica (self, machine, error))
        return FALSE;
    }
  return TRUE;
}

/* Fills `answers`: all of them, or it fails. */
static gboolean
ask_all (Ctx *ctx, GrantProgress *self, const char *id, GHashTable *answers, GError **error)
{
  HttpClientConfig config = {
    .ca_file = self->ca_file, .max_attempts = 1, .connect_timeout_ms = TIMEOUT_MS, .proxy = "", .buffer_bytes = 4096
  };
  g_autoptr (Ctx) limited = ctx_new_child (ctx, TIMEOUT_MS);
  g_autoptr (GError) failure = NULL;
  g_autoptr (HttpClient) http = http_client_new (&config, error);
  if (http == NULL)
    return FALSE;
  g_autofree char *origin = g_strconcat (self->plain_http ? "http://" : "https://", self->host_port, NULL);
  g_autofree char *url = g_strdup_printf ("%s/_ai_models/grants/%s", origin, id);
  g_autofree char *login = self->login_dir != NULL ? registry_login_header (self->login_dir, &failure) : NULL;
  if (failure != NULL)
    return am_fail (error, AM_ERROR_UNAVAILABLE, NULL, "the login of the module's registry cannot be read");
  if (login != NULL)
    http_client_set_credentials (http, origin, login);
  g_auto (GStrv) peers = g_strsplit (self->peers, ",", MAX_PEERS);
  Round round = { limited, http, url, answers };
  for (guint i = 0; peers[i] != NULL; i++)
    if (!ask_peer (&round, g_strstrip (peers[i]), self->plain_http ? "80" : "443", error))
      return FALSE;
  return TRUE;
}

/* Remembering */

static Known *
known_of_locked (GrantProgress *self, const char *id)
{
  Known *known = g_hash_table_lookup (self->grants, id);
  if (known != NULL)
    return known;
  if (g_hash_table_size (self->grants) >= MAX_GRANTS)
    g_hash_table_remove_all (self->grants);
  known = g_new0 (Known, 1);
  known->counts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  known->asked_us = G_MININT64 / 2;
  am_fail (&known->failure, AM_ERROR_UNAVAILABLE, NULL, "the module's registry was not asked yet");
  g_hash_table_insert (self->grants, g_strdup (id), known);
  return known;
}

/* A count that became smaller is that of a new process. */
static void
take_answers (Known *self, GHashTable *answers)
{
  GHashTableIter iter;
  gpointer address, value;
  g_hash_table_iter_init (&iter, answers);
  while (g_hash_table_iter_next (&iter, &address, &value))
    {
      guint64 said = *(const guint64 *) value;
      Count *count = g_hash_table_lookup (self->counts, address);
      if (count == NULL)
        {
          count = g_new0 (Count, 1);
          g_hash_table_insert (self->counts, g_strdup (address), count);
        }
      if (said < count->last_bytes)
        count->before_bytes += count->last_bytes;
      count->last_bytes = said;
    }
}

static gboolean
tell_locked (const Known *self, guint64 *out_read_bytes, GError **error)
{
  GHashTableIter iter;
  gpointer value;
  if (self->failure != NULL)
    {
      g_propagate_error (error, g_error_copy (self->failure));
      return FALSE;
    }
  *out_read_bytes = 0;
  g_hash_table_iter_init (&iter, self->counts);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const Count *count = value;
      *out_read_bytes += count->before_bytes + count->last_bytes;
    }
  return TRUE;
}

/* Of several that come at once, one asks. */
static gboolean
must_ask (GrantProgress *self, const char *id, guint64 *out_read_bytes, gboolean *out_told, GError **error)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Known *known = known_of_locked (self, id);
  gint64 now_us = g_get_monotonic_time ();
  gboolean is_due = now_us - known->asked_us >= self->max_age_us;
  if (is_due)
    known->asked_us = now_us;
  else
    *out_told = tell_locked (known, out_read_bytes, error);
  return is_due;
}

gboolean
grant_progress_read (Ctx *ctx, GrantProgress *self, const char *id, guint64 *out_read_bytes, GError **error)
{
  g_autoptr (GHashTable) answers = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_autoptr (GError) failure = NULL;
  gboolean told = FALSE;
  if (!id_is_ours (id))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, NULL, "this is no id of a grant");
  if (!must_ask (self, id, out_read_bytes, &told, error))
    return told;
  gboolean asked = ask_all (ctx, self, id, answers, &failure);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  Known *known = known_of_locked (self, id);
  known->asked_us = g_get_monotonic_time ();
  g_clear_error (&known->failure);
  known->failure = g_steal_pointer (&failure);
  if (asked)
    take_answers (known, answers);
  return tell_locked (known, out_read_bytes, error);
}
