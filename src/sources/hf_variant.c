#include "sources/hf_variant.h"

#include <string.h>

#include "formats/shard_name.h"

#define MAX_SHOWN 12u

/* GGUF files that are no models themselves. */
static const char *const helpers[] = { "mmproj", "imatrix" };

static const char *
base_name (const char *path)
{
  const char *slash = strrchr (path, '/');
  return slash != NULL ? slash + 1 : path;
}

static gboolean
is_model (const char *path)
{
  g_autofree char *lower = g_ascii_strdown (base_name (path), -1);
  for (gsize i = 0; i < G_N_ELEMENTS (helpers); i++)
    if (strstr (lower, helpers[i]) != NULL)
      return FALSE;
  return g_str_has_suffix (lower, ".gguf");
}

/* `variant` as a word of the file's name: "Q4_K_M" in model-Q4_K_M.gguf and in model.Q4_K_M-00001-of-00002.gguf, but not in
 * model-UD-Q4_K_M.gguf, which is another. Both in lower case. */
static gboolean
has_word (const char *name, const char *variant)
{
  gsize size = strlen (variant);
  for (const char *at = strstr (name, variant); at != NULL; at = strstr (at + 1, variant))
    {
      gboolean begins = at == name
                        || (!g_ascii_isalnum (at[-1]) && !(at - name >= 3 && strncmp (at - 3, "ud-", 3) == 0));
      if (begins && (at[size] == '.' || at[size] == '-'))
        return TRUE;
    }
  return FALSE;
}

static gboolean
is_meant (const char *path, const char *variant)
{
  g_autofree char *lower = g_ascii_strdown (path, -1), *wanted = g_ascii_strdown (variant, -1);
  g_autofree char *folder = g_path_get_dirname (lower);
  return strcmp (base_name (lower), wanted) == 0 || has_word (base_name (lower), wanted)
         || strcmp (base_name (folder), wanted) == 0;
}

static gboolean
same_set (gconstpointer a, gconstpointer b)
{
  return shard_name_same_set (a, b);
}

/* The model files among `files`, one for each split set; only those that `variant` means unless it is NULL. */
static GPtrArray *
collect (const GArray *files, const char *variant)
{
  GPtrArray *found = g_ptr_array_new ();
  for (guint i = 0; i < files->len; i++)
    {
      const char *path = g_array_index (files, HfFile, i).path;
      if (is_model (path) && !g_ptr_array_find_with_equal_func (found, path, same_set, NULL)
          && (variant == NULL || is_meant (path, variant)))
        g_ptr_array_add (found, (gpointer) path);
    }
  return found;
}

/* Caller frees. */
static char *
list (const GPtrArray *paths)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < MIN (paths->len, MAX_SHOWN); i++)
    g_string_append_printf (text, "%s%s", i > 0 ? ", " : "", (const char *) g_ptr_array_index (paths, i));
  if (paths->len > MAX_SHOWN)
    g_string_append (text, ", ...");
  return g_string_free (g_steal_pointer (&text), FALSE);
}

const char *
hf_variant_find (const GArray *files, const char *variant, GError **error)
{
  g_autoptr (GPtrArray) found = collect (files, variant), all = collect (files, NULL);
  if (found->len == 1)
    return g_ptr_array_index (found, 0);
  g_autofree char *shown = list (found->len > 0 ? found : all);
  if (found->len > 1)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "AmbiguousFormat",
                         "\"%s\" fits several files, give the address of one: %s", variant, shown);
  return am_fail_null (error, AM_ERROR_NOT_FOUND, "HubNotFound", "it has no GGUF file for \"%s\"%s%s", variant,
                       all->len > 0 ? ", but " : "", shown);
}
