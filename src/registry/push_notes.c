#include "registry/push_notes.h"

#include <glib/gstdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

#define FILE_LIMIT_BYTES 16384

static char *
file_of (const char *dir, const char *name)
{
  return g_strdup_printf ("%s/%s.json", dir, name);
}

static char *
directory_load (gpointer dir, const char *name)
{
  g_autoptr (GError) problem = NULL;
  g_autofree char *path = file_of (dir, name);
  g_autoptr (GBytes) bytes = file_read (path, FILE_LIMIT_BYTES, &problem);
  if (bytes == NULL)
    {
      am_ignore (&problem, "no push was interrupted");
      return NULL;
    }
  gsize size = 0;
  gconstpointer data = g_bytes_get_data (bytes, &size);
  g_autoptr (yyjson_doc) doc = json_parse (data, size, FILE_LIMIT_BYTES, JSON_STRICT, &problem);
  char *note = doc == NULL ? NULL : g_strdup (json_get_string (yyjson_doc_get_root (doc), "location"));
  am_ignore (&problem, "a damaged note starts the push anew");
  return note;
}

static void
directory_save (Ctx *ctx, gpointer dir, const char *name, const char *note)
{
  g_autoptr (GError) problem = NULL;
  g_autofree char *path = file_of (dir, name);
  if (note == NULL)
    {
      g_unlink (path);
      return;
    }
  g_autoptr (yyjson_mut_doc) doc = yyjson_mut_doc_new (NULL);
  yyjson_mut_val *root = yyjson_mut_obj (doc);
  yyjson_mut_doc_set_root (doc, root);
  yyjson_mut_obj_add_str (doc, root, "location", note);
  gsize size = 0;
  g_autofree char *text = json_write (doc, &size);
  if (!file_make_dirs (dir, NULL, &problem) || !file_replace (path, text, size, &problem))
    am_log_warning (ctx, "the push cannot be resumed if it is interrupted", "err", problem->message, NULL);
}

PushNotes
push_notes_in_directory (const char *dir)
{
  return (PushNotes){ directory_load, directory_save, (gpointer) dir };
}

char *
push_note_name (const char *host, const char *repository, const char *key)
{
  if (key == NULL)
    return NULL;
  g_autofree char *text = g_strdup_printf ("%s\n%s\n%s", host, repository, key);
  Digest digest;
  char hex[2 * DIGEST_MAX_BYTES + 1];
  digest_of (DIGEST_SHA256, text, strlen (text), &digest);
  return g_strdup (digest_hex (&digest, hex));
}

char *
push_note_load (const PushNotes *self, const char *name)
{
  if (self == NULL || name == NULL)
    return NULL;
  g_autofree char *note = self->load (self->data, name);
  gboolean is_path = note != NULL && note[0] == '/' && note[1] != '/' && strlen (note) <= PUSH_NOTE_MAX_BYTES;
  return is_path ? g_steal_pointer (&note) : NULL;
}

void
push_note_save (Ctx *ctx, const PushNotes *self, const char *name, const char *location)
{
  const char *after_scheme = strstr (location, "://");
  const char *path = after_scheme == NULL ? NULL : strchr (after_scheme + 3, '/');
  if (self != NULL && name != NULL && path != NULL && strchr (path, '?') == NULL
      && strlen (path) <= PUSH_NOTE_MAX_BYTES)
    self->save (ctx, self->data, name, path);
}

void
push_note_remove (Ctx *ctx, const PushNotes *self, const char *name)
{
  if (self != NULL && name != NULL)
    self->save (ctx, self->data, name, NULL);
}
