#include "oci/path_set.h"

#include <string.h>

#include "base/file.h"

typedef enum { HELD_AS_FILE = 1, HELD_AS_FOLDER, HELD_AS_PARENT } Held;

struct PathSet {
  GHashTable *held; /* folded path -> Held */
};

PathSet *
path_set_new (void)
{
  PathSet *self = g_new0 (PathSet, 1);
  self->held = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  return self;
}

void
path_set_free (PathSet *self)
{
  if (self == NULL)
    return;
  g_hash_table_unref (self->held);
  g_free (self);
}

static Held
lookup (PathSet *self, const char *folded)
{
  return (Held) GPOINTER_TO_INT (g_hash_table_lookup (self->held, folded));
}

/* What a file system that ignores case and Unicode forms would take it for. */
static char *
fold (const char *path)
{
  g_autofree char *lower = g_utf8_casefold (path, -1);
  return g_utf8_normalize (lower, -1, G_NORMALIZE_ALL_COMPOSE);
}

static gboolean
take_parents (PathSet *self, const char *path, const char *folded, GError **error)
{
  for (const char *slash = strchr (folded, '/'); slash != NULL; slash = strchr (slash + 1, '/'))
    {
      g_autofree char *parent = g_strndup (folded, (gsize) (slash - folded));
      Held held = lookup (self, parent);
      if (held == HELD_AS_FILE)
        return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "PathInvalid",
                        "\"%s\" lies below a path that is a file itself", path);
      if (held == 0)
        g_hash_table_insert (self->held, g_steal_pointer (&parent), GINT_TO_POINTER (HELD_AS_PARENT));
    }
  return TRUE;
}

gboolean
path_set_add (PathSet *self, const char *path, gboolean is_folder, GError **error)
{
  if (!path_is_safe (path))
    {
      g_autofree char *shown = g_strescape (path == NULL ? "" : path, NULL);
      return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "PathInvalid",
                      "\"%.200s\" is no safe file path: it must be relative, with '/' between plain names", shown);
    }
  g_autofree char *folded = fold (path);
  Held held = lookup (self, folded);
  if (held == HELD_AS_FILE || held == HELD_AS_FOLDER)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "PathInvalid",
                    "\"%s\" occurs twice (file names must differ in more than case)", path);
  if (held == HELD_AS_PARENT && !is_folder)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "PathInvalid", "\"%s\" is a file and a folder at once", path);
  if (!take_parents (self, path, folded, error))
    return FALSE;
  g_hash_table_replace (self->held, g_steal_pointer (&folded),
                        GINT_TO_POINTER (is_folder ? HELD_AS_FOLDER : HELD_AS_FILE));
  return TRUE;
}
