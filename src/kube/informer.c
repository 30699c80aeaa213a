#include "kube/informer.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "kube/text_pack.h"

#define WAIT_POLL_MS 50
#define FIRST_DELAY_MS 500
#define MAX_DELAY_MS (30 * 1000)

/* An object in one piece of memory. */
typedef struct {
  guint32 generation; /* of the list that had it last */
  guint32 text_size;
  guint32 kept_size; /* of the text as it is kept */
  gboolean is_packed;
  char key[]; /* "namespace/name"; the text is behind it */
} Cached;

struct Informer {
  Ctx *ctx;
  KubeClient *client;
  InformerConfig config;
  GThread *thread;
  GMutex lock;
  TextPack *pack;
  GHashTable *objects; /* key -> Cached */
  GHashTable *index;   /* value -> array of Cached */
  guint32 generation;
  gint has_synced;
  char *resource_version; /* where the watch goes on; the thread's own, as are the next two */
  gint64 delay_ms;
  gboolean must_list;
};

static char *
make_key (const char *namespace, const char *name)
{
  return g_strconcat (namespace != NULL ? namespace : "", "/", name, NULL);
}

static Cached *
keep_locked (Informer *self, const char *key, gconstpointer text, gsize size)
{
  gsize kept_size = 0, key_size = strlen (key) + 1;
  gboolean is_packed = FALSE;
  gconstpointer kept = text_pack_put (self->pack, text, size, &kept_size, &is_packed);
  Cached *cached = g_malloc (sizeof *cached + key_size + kept_size);
  *cached = (Cached){ self->generation, (guint32) size, (guint32) kept_size, is_packed };
  memcpy (cached->key, key, key_size);
  memcpy (cached->key + key_size, kept, kept_size);
  return cached;
}

static KubeObject *
parse_locked (Informer *self, const Cached *cached)
{
  gconstpointer text = cached->key + strlen (cached->key) + 1;
  if (cached->is_packed)
    text = text_pack_get (self->pack, text, cached->kept_size, cached->text_size);
  KubeObject *object = kube_object_parse_shallow (text, cached->text_size, NULL);
  g_assert (object != NULL); /* we wrote it */
  return object;
}

static void
index_locked (Informer *self, const KubeObject *object, Cached *cached, gboolean adds)
{
  g_autoptr (GPtrArray) values = g_ptr_array_new_with_free_func (g_free);
  if (self->config.index != NULL)
    self->config.index (object, values);
  for (guint i = 0; i < values->len; i++)
    {
      GPtrArray *found = g_hash_table_lookup (self->index, values->pdata[i]);
      if (found == NULL && adds)
        {
          found = g_ptr_array_new ();
          g_hash_table_insert (self->index, g_strdup (values->pdata[i]), found);
        }
      if (adds && !g_ptr_array_find (found, cached, NULL))
        g_ptr_array_add (found, cached);
      if (!adds && found != NULL)
        g_ptr_array_remove_fast (found, cached);
      if (found != NULL && found->len == 0)
        g_hash_table_remove (self->index, values->pdata[i]);
    }
}

/* Takes an object out; its last state, or NULL. */
static KubeObject *
remove_locked (Informer *self, const char *key)
{
  Cached *cached = g_hash_table_lookup (self->objects, key);
  if (cached == NULL)
    return NULL;
  KubeObject *before = parse_locked (self, cached);
  index_locked (self, before, cached, FALSE);
  g_hash_table_remove (self->objects, key);
  return before;
}

static void
tell (Informer *self, const KubeObject *before, const KubeObject *now)
{
  if (self->config.changed != NULL && (before != NULL || now != NULL))
    self->config.changed (before, now, self->config.data);
}

/* Versions are the API server's: of one object the greater is the newer. Those that are no numbers tell nothing. */
static gboolean
is_older (const KubeObject *one, const KubeObject *other)
{
  guint64 version = 0, version_other = 0;
  return g_strcmp0 (kube_object_uid (one), kube_object_uid (other)) == 0
         && text_parse_u64 (kube_object_resource_version (one), &version)
         && text_parse_u64 (kube_object_resource_version (other), &version_other) && version < version_other;
}

static gboolean
knows_newer_locked (Informer *self, const char *key, const KubeObject *object)
{
  const Cached *cached = g_hash_table_lookup (self->objects, key);
  g_autoptr (KubeObject) known = cached != NULL ? parse_locked (self, cached) : NULL;
  return known != NULL && is_older (object, known);
}

/* An object as the API server has it, or had it: what is known of it may be newer (informer_take). */
static void
put (Informer *self, const KubeObject *object)
{
  gsize size = 0;
  g_autofree char *text = NULL;
  g_autofree char *key = make_key (kube_object_namespace (object), kube_object_name (object));
  g_autoptr (KubeObject) now = kube_object_trimmed (object, self->config.trim, &text, &size);
  g_mutex_lock (&self->lock);
  if (knows_newer_locked (self, key, object))
    {
      ((Cached *) g_hash_table_lookup (self->objects, key))->generation = self->generation;
      g_mutex_unlock (&self->lock);
      return;
    }
  g_autoptr (KubeObject) before = remove_locked (self, key);
  Cached *cached = keep_locked (self, key, text, size);
  g_hash_table_insert (self->objects, cached->key, cached);
  index_locked (self, now, cached, TRUE);
  g_mutex_unlock (&self->lock);
  gboolean is_same = before != NULL
                     && strcmp (kube_object_resource_version (before), kube_object_resource_version (now)) == 0;
  if (!is_same)
    tell (self, before, now);
}

void
informer_take (Informer *self, const KubeObject *object)
{
  put (self, object);
}

static void
drop (Informer *self, const char *key)
{
  g_mutex_lock (&self->lock);
  g_autoptr (KubeObject) before = remove_locked (self, key);
  g_mutex_unlock (&self->lock);
  tell (self, before, NULL);
}

/* What the last list did not have is gone. */
static void
drop_unseen (Informer *self)
{
  g_autoptr (GPtrArray) gone = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  gpointer value;
  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->objects);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      const Cached *cached = value;
      if (cached->generation != self->generation)
        g_ptr_array_add (gone, g_strdup (cached->key));
    }
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < gone->len; i++)
    drop (self, gone->pdata[i]);
}

static gboolean
take_listed (KubeObject *object, gpointer data, GError **error)
{
  put (data, object);
  return TRUE;
}

static gboolean
list_all (Informer *self, GError **error)
{
  KubeTarget target = { .kind = self->config.kind, .namespace = self->config.namespace };
  KubeListOptions options = {
    .label_selector = self->config.label_selector,
    .field_selector = self->config.field_selector,
    .may_lag = self->resource_version == NULL, /* at first; later nothing may seem to go back in time */
  };
  char *resource_version = NULL;
  g_mutex_lock (&self->lock);
  self->generation++;
  g_mutex_unlock (&self->lock);
  if (!kube_client_list (self->ctx, self->client, &target, &options, take_listed, self, &resource_version, error))
    return FALSE;
  drop_unseen (self);
  g_free (self->resource_version);
  self->resource_version = resource_version;
  self->must_list = FALSE;
  g_atomic_int_set (&self->has_synced, TRUE);
  return TRUE;
}

static gboolean
take_event (KubeEventType type, KubeObject *object, gpointer data, GError **error)
{
  Informer *self = data;
  g_autofree char *key = make_key (kube_object_namespace (object), kube_object_name (object));
  if (type == KUBE_DELETED)
    drop (self, key);
  else if (type != KUBE_BOOKMARK)
    put (self, object);
  g_free (self->resource_version);
  self->resource_version = g_strdup (kube_object_resource_version (object));
  self->delay_ms = 0;
  return TRUE;
}

static gboolean
watch_on (Informer *self, GError **error)
{
  KubeTarget target = { .kind = self->config.kind, .namespace = self->config.namespace };
  KubeWatchOptions options = {
    .label_selector = self->config.label_selector,
    .field_selector = self->config.field_selector,
    .resource_version = self->resource_version,
    .timeout_s = (guint) g_random_int_range (240, 480), /* not all at once */
  };
  return kube_client_watch (self->ctx, self->client, &target, &options, take_event, self, error);
}

/* After a failure: a list is needed when the server has forgotten where we were. */
static void
note_failure (Informer *self, const GError *error)
{
  if (am_error_is (error, AM_ERROR_OUT_OF_RANGE))
    self->must_list = TRUE;
  am_log_info (self->ctx, "watch interrupted", "kind", self->config.kind->kind, "err", error->message, NULL);
  self->delay_ms = CLAMP (self->delay_ms * 2, FIRST_DELAY_MS, MAX_DELAY_MS);
  ctx_sleep_ms (self->ctx, g_random_int_range ((gint) self->delay_ms / 2, (gint) self->delay_ms + 1), NULL);
}

static gpointer
run (gpointer data)
{
  Informer *self = data;
  self->must_list = TRUE;
  while (ctx_check (self->ctx, NULL))
    {
      g_autoptr (GError) error = NULL;
      gboolean done = self->must_list ? list_all (self, &error) : watch_on (self, &error);
      if (!done && ctx_check (self->ctx, NULL))
        note_failure (self, error);
    }
  return NULL;
}

static void
free_array (gpointer data)
{
  g_ptr_array_unref (data);
}

Informer *
informer_start (Ctx *ctx, KubeClient *client, const InformerConfig *config)
{
  Informer *self = g_new0 (Informer, 1);
  self->ctx = ctx_new_child (ctx, -1);
  self->client = client;
  self->config = *config;
  g_mutex_init (&self->lock);
  self->pack = text_pack_new ();
  self->objects = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_free);
  self->index = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, free_array);
  self->thread = g_thread_new ("informer", run, self);
  return self;
}

void
informer_free (Informer *self)
{
  if (self == NULL)
    return;
  ctx_cancel (self->ctx);
  g_thread_join (self->thread);
  g_hash_table_unref (self->index);
  g_hash_table_unref (self->objects);
  text_pack_free (self->pack);
  g_mutex_clear (&self->lock);
  g_free (self->resource_version);
  ctx_unref (self->ctx);
  g_free (self);
}

gboolean
informer_has_synced (Informer *self)
{
  return g_atomic_int_get (&self->has_synced);
}

gboolean
informer_wait (Ctx *ctx, Informer *self, GError **error)
{
  while (!informer_has_synced (self))
    if (!ctx_check (self->ctx, error) || !ctx_sleep_ms (ctx, WAIT_POLL_MS, error))
      return FALSE;
  return TRUE;
}

static KubeObject *
get_by_key (Informer *self, const char *key)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  const Cached *cached = g_hash_table_lookup (self->objects, key);
  return cached != NULL ? parse_locked (self, cached) : NULL;
}

KubeObject *
informer_get (Informer *self, const char *namespace, const char *name)
{
  g_autofree char *key = make_key (namespace, name);
  return get_by_key (self, key);
}

static void
unref_object (gpointer data)
{
  kube_object_unref (data);
}

GPtrArray *
informer_find (Informer *self, const char *value)
{
  GPtrArray *found = g_ptr_array_new_with_free_func (unref_object);
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  const GPtrArray *indexed = value != NULL ? g_hash_table_lookup (self->index, value) : NULL;
  GHashTableIter iter;
  gpointer each;
  for (guint i = 0; indexed != NULL && i < indexed->len; i++)
    g_ptr_array_add (found, parse_locked (self, indexed->pdata[i]));
  g_hash_table_iter_init (&iter, self->objects);
  while (value == NULL && g_hash_table_iter_next (&iter, NULL, &each))
    g_ptr_array_add (found, parse_locked (self, each));
  return found;
}

guint
informer_count (Informer *self)
{
  g_autoptr (GMutexLocker) locker G_GNUC_UNUSED = g_mutex_locker_new (&self->lock);
  return g_hash_table_size (self->objects);
}

void
informer_each (Informer *self, void (*func) (const KubeObject *object, gpointer data), gpointer data)
{
  g_autoptr (GPtrArray) keys = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  gpointer key;
  g_mutex_lock (&self->lock);
  g_hash_table_iter_init (&iter, self->objects);
  while (g_hash_table_iter_next (&iter, &key, NULL))
    g_ptr_array_add (keys, g_strdup (key));
  g_mutex_unlock (&self->lock);
  for (guint i = 0; i < keys->len; i++)
    {
      g_autoptr (KubeObject) object = get_by_key (self, keys->pdata[i]);
      if (object != NULL)
        func (object, data);
    }
}
