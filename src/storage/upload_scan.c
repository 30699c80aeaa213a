/* What lies in the store for upload sessions, seen from outside: pins, and what dead sessions left. */
#include <string.h>

#include "base/text.h"
#include "storage/upload_session.h"
#include "storage/upload_state.h"

#define PAGE 1000u

typedef struct {
  Ctx *ctx;
  ObjectStore *objects;
  gint64 now_ms;
  const UploadScanEvents *events;
  gpointer data;
} Scan;

/* All objects of one session. */
static GPtrArray *
list_session (const Scan *self, const char *id, GError **error)
{
  g_autofree char *prefix = upload_prefix (id);
  g_autofree char *after = NULL;
  g_autoptr (GPtrArray) all = g_ptr_array_new_with_free_func ((GDestroyNotify) object_info_free);
  for (;;)
    {
      g_autoptr (GPtrArray) page = object_store_list (self->ctx, self->objects, prefix, after, PAGE, error);
      if (page == NULL)
        return NULL;
      if (page->len == 0)
        return g_steal_pointer (&all);
      g_free (after);
      after = g_strdup (((ObjectInfo *) g_ptr_array_index (page, page->len - 1))->key);
      g_ptr_array_extend_and_steal (all, g_steal_pointer (&page));
    }
}

static gboolean
is_alive (const Scan *self, const GPtrArray *all)
{
  for (guint i = 0; i < all->len; i++)
    if (self->now_ms - ((ObjectInfo *) g_ptr_array_index (all, i))->modified_ms < UPLOAD_SESSION_TTL_MS)
      return TRUE;
  return FALSE;
}

static void
pin_all (const Scan *self, const guint8 *digests, gsize n, gsize stride)
{
  for (gsize i = 0; i < n; i++)
    self->events->pin (self->data, digests + i * stride);
}

/* What it was told as known. */
static gboolean
scan_pins (const Scan *self, const char *key, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_autoptr (GBytes) pins = object_store_get (self->ctx, self->objects, key, UPLOAD_KNOWN_MAX * 32, &problem);
  if (pins != NULL)
    pin_all (self, g_bytes_get_data (pins, NULL), g_bytes_get_size (pins) / 32, 32);
  else if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    am_ignore (&problem, "the session ended meanwhile");
  else
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  return TRUE;
}

/* What it has stored. A state that is damaged beyond use cannot be continued by anybody, so it holds nothing. */
static gboolean
scan_state (const Scan *self, const char *id, GError **error)
{
  g_autoptr (GError) problem = NULL;
  g_auto (UploadState) state;
  upload_state_init (&state);
  if (upload_state_load (self->ctx, self->objects, id, &state, &problem))
    pin_all (self, (const guint8 *) state.entries->data, state.entries->len, sizeof (RecipeEntry));
  else if (am_error_is (problem, AM_ERROR_NOT_FOUND))
    am_ignore (&problem, "the session ended, never saved its state, or cannot be continued");
  else
    {
      g_propagate_error (error, g_steal_pointer (&problem));
      return FALSE;
    }
  return TRUE;
}

static gboolean
scan_session (const Scan *self, const char *id, GError **error)
{
  g_autoptr (GPtrArray) all = list_session (self, id, error);
  if (all == NULL)
    return FALSE;
  gboolean alive = is_alive (self, all);
  for (guint i = 0; i < all->len; i++)
    {
      const ObjectInfo *info = g_ptr_array_index (all, i);
      const char *name = info->key + strlen (UPLOADS_PREFIX) + UPLOAD_ID_LENGTH + 1;
      if (alive ? g_str_has_prefix (name, "pins-") && !scan_pins (self, info->key, error)
                : self->events->dead != NULL && !self->events->dead (self->data, info, error))
        return FALSE;
    }
  return !alive || scan_state (self, id, error);
}

gboolean
upload_session_scan (Ctx *ctx, ObjectStore *objects, gint64 now_ms, const UploadScanEvents *events, gpointer data,
                     GError **error)
{
  Scan self = { ctx, objects, now_ms, events, data };
  g_autofree char *after = NULL;
  for (;;)
    {
      /* One session at a time: the page is its first key. */
      g_autoptr (GPtrArray) first = object_store_list (ctx, objects, UPLOADS_PREFIX, after, 1, error);
      if (first == NULL || first->len == 0)
        return first != NULL;
      const char *rest = ((ObjectInfo *) g_ptr_array_index (first, 0))->key + strlen (UPLOADS_PREFIX);
      gsize n = strcspn (rest, "/");
      g_autofree char *id = g_strndup (rest, n);
      if (text_is_uuid (id) && rest[n] == '/' && !scan_session (&self, id, error))
        return FALSE;
      g_free (after);
      after = g_strdup_printf (UPLOADS_PREFIX "%s%s", id, rest[n] == '/' ? "/" OBJECT_KEY_BEHIND_ALL : "");
    }
}
